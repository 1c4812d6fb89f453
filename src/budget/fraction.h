// A limit that follows from what the plain step needs: a part of it, or the least that is fast enough.
#pragma once

#include <map>
#include <set>
#include <string>

#include <encore/plan/graph.h>

#include "base/background.h"
#include "budget/step_model.h"

namespace encore::budget {

/// What a limit in bytes is learnt from: steps with a backward, as far as they were seen.
struct Fraction {
  enum class Of : uint8_t {
    kNothing,   // the limit is in bytes
    kPlain,     // `part` of what the plain step needs above what rests
    kSlowdown,  // the least in which a step takes at most `part` times as long as plainly
    kLeast,     // the least for which there is a plan
  };
  Of of = Of::kNothing;
  double part = 1;
  int64_t overestimate_bytes = 0;         // by the model, of a step that ran plainly
  int64_t need_bytes = -1;                // of the kind that needs most; -1: not known yet
  int64_t seen_bytes = -1;                // needed by the last step, if that is more and there is no model of it
  bool is_settled = false;                // known from a step before which as much rested as after it
  std::shared_ptr<const StepModel> news;  // of the last step, if it had a backward
  std::string trouble;                    // what the last curve ended with

  bool is_learnt() const { return of != Of::kNothing; }
  /// The whole of what a step needs can't be a ground to refuse it.
  bool refuses_nothing() const { return of == Of::kPlain && part >= 1; }

  /// True if the limit is another one: the news changed what is needed, or it is needed above more that rests, since a
  /// rehearsal knew nothing of what the first step leaves. In the first steps gradients and the optimizer's state are
  /// born, so that what later ones need above what rests is known less well. A curve takes as long as several plans, so
  /// it is made while training goes on: what it says comes with a later step unless it is there within `patience`.
  bool learn(int64_t resting, std::chrono::milliseconds patience);
  /// A rehearsal of a step that begins with so much at rest. It settles nothing: gradients may be born in it.
  void rehearsed(const StepModel& model, int64_t resting);
  /// Whether another curve of this kind of step would tell nothing new.
  bool is_looked_at(uint64_t kind) const;
  /// Of a step of which there is no model.
  void has_seen(int64_t plain_need_bytes) {
    if (of == Of::kPlain && is_settled && plain_need_bytes > need_bytes) {
      seen_bytes = std::max(seen_bytes, plain_need_bytes);
    }
  }
  int64_t limit_for(int64_t resting) const {
    const double share = of == Of::kPlain ? part : 1;
    return resting + static_cast<int64_t>(share * static_cast<double>(need_bytes));
  }

 private:
  /// What one kind of step needs.
  struct Need {
    uint64_t kind = 0;
    int64_t bytes = 0;             // above what rests
    int64_t rests_more_bytes = 0;  // than when the step began that shows it
    std::string trouble;           // why it is not known
  };

  void note(const Need& need);

  std::set<uint64_t> kinds_;           // of which the curve was looked at
  std::map<uint64_t, int> unsettled_;  // curves that were looked at in vain, by kind
  Background<Need> curve_;
};

}  // namespace encore::budget
