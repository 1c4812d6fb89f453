// What is known when a step begins, and what it showed.
#pragma once

#include <encore/error.h>

#include "budget/itinerary.h"
#include "run/meter.h"

namespace encore::budget {

// Smaller storages are not worth the bookkeeping: they stay where they are.
constexpr int64_t kSmallest = 512;

inline run::Meter& meter() {
  return run::Meter::instance();
}

/// What is known when a step begins.
struct StepSetting {
  int64_t limit_bytes = run::Meter::kNoLimit;
  int64_t smallest_bytes = kSmallest;
  bool leaves_no_trace = false;  // a rehearsal: all that it writes to is put back
  /// What to do where an allocation does not fit and nothing is left to give up: refuse it, or go on without a limit to
  /// learn what a step of a kind never seen needs, or in any step.
  enum class AtTheEnd : uint8_t { kRefuse, kLearnNewKinds, kLearn } at_the_end = AtTheEnd::kRefuse;
  /// The step as it was last time, if no plan for it fits the limit.
  struct Unplanned {
    std::shared_ptr<const StepModel> model;
    int64_t least_bytes = 0;  // for which a plan is known
    std::string text;         // for a refusal
  } unplanned;
  /// Likewise of the kind of step whose event `index` has this path; empty where none is known.
  std::function<Unplanned(size_t index, uint64_t path)> find_unplanned;
  /// The plan to follow until the step shows that it is another one; may be null.
  std::shared_ptr<const Itinerary> first;
  /// Only whether the step is as planned is looked at: it came many times in a row, and its plan asks for nothing.
  bool is_routine = false;
  /// Another plan for a step whose event `index` has this path, or null; empty where there are none.
  std::function<std::shared_ptr<const Itinerary>(size_t index, uint64_t path)> find;
};

struct StepFigures {
  int64_t ops_replayed = 0;
  int64_t replays = 0;
  int64_t replay_ns = 0;
  int64_t evictions = 0;  // under pressure, not by plan
  int64_t evicted_bytes = 0;
  int64_t evict_ns = 0;
  std::optional<BudgetError> refused;  // the last one out of an allocation
  size_t refused_at = 0;               // event
  std::optional<uint64_t> refused_as;  // the signature of the kind of step that it was taken for, if no plan fits that
  bool limit_was_lifted = false;       // see StepSetting::AtTheEnd
  int64_t process_bytes = 0;           // resident, at its most when it was looked at
  int64_t plain_peak_bytes = 0;        // what plain training would have held at its most, as far as was looked at
  int64_t foreign_bytes = 0;           // of tensors that ops read and no allocator of LibTorch's made
  std::optional<uint64_t> routine;     // the signature of a step that was expected to be routine
  bool left_plan = false;
  std::string left_at;
};

}  // namespace encore::budget
