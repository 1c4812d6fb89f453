// The exact search for small graphs: shortest path over sets of resident values.
#pragma once

#include <cstdint>

#include "plan/problem.h"

namespace encore::plan {

constexpr int32_t kMaxExactSteps = 63;

struct ExactAnswer {
  bool finished = false;  ///< Whether the search came to its end; nothing else holds if not.
  bool feasible = false;
  double extra_time = 0;  ///< If not finished: no schedule has less extra time than this.
  Schedule schedule;
};

/// The least time over all schedules in order within the budget, or that there is none. Gives up after `max_states`.
ExactAnswer exact_search(const Compact& graph, int64_t budget_bytes, int64_t max_states);

/// A schedule in order with the lowest peak, if the search finishes. No time is minimised.
ExactAnswer exact_min_budget(const Compact& graph, int64_t max_states);

/// Whether the searches finish at every budget: there are no more states than that.
bool finishes_within(const Compact& graph, int64_t max_states);

}  // namespace encore::plan
