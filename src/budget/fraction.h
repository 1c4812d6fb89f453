// A limit as a part of what the plain step needs.
#pragma once

#include <encore/plan/graph.h>

#include "budget/step_model.h"

namespace encore::budget {

/// A limit that is a part of what the plain step needs above what rests, as far as that was seen.
struct Fraction {
  double part = 0;                        // 0: the limit is in bytes
  int64_t overestimate_bytes = 0;         // by the model, of a step that ran plainly
  int64_t need_bytes = -1;                // of the kind that needs most; -1: not known yet
  int64_t seen_bytes = -1;                // needed by the last step, if that is more and there is no model of it
  bool is_settled = false;                // known from a step before which as much rested as after it
  std::shared_ptr<const StepModel> news;  // of the last step, if it had a backward

  /// True if the news changed what is needed. In the first steps gradients and the optimizer's state are born, so that
  /// what later ones need above what rests is known less well.
  bool learn(int64_t resting) {
    constexpr int64_t kSettledPart = 1000;
    const auto model = std::exchange(news, nullptr);
    const int64_t before = need_bytes;
    need_bytes = std::max(need_bytes, std::exchange(seen_bytes, -1));
    if (part <= 0 || !model) {
      return need_bytes != before;
    }
    const int64_t plain = plan::baseline(model->graph_for(resting)).peak_bytes - overestimate_bytes;
    const int64_t need = std::max<int64_t>(0, plain - resting);
    const bool settled = (resting - model->resting_bytes) * kSettledPart <= need;
    if (settled && !is_settled) {
      is_settled = true;
      need_bytes = need;
    } else if (settled || !is_settled) {
      need_bytes = std::max(need_bytes, need);
    }
    return need_bytes != before;
  }
  /// Of a step of which there is no model.
  void has_seen(int64_t plain_need_bytes) {
    if (part > 0 && is_settled && plain_need_bytes > need_bytes) {
      seen_bytes = std::max(seen_bytes, plain_need_bytes);
    }
  }
  int64_t limit_for(int64_t resting) const {
    return resting + static_cast<int64_t>(part * static_cast<double>(need_bytes));
  }
};

}  // namespace encore::budget
