// What no schedule can do better.
#pragma once

#include <cstdint>

#include "plan/problem.h"

namespace encore::plan {

/// No schedule has a lower peak: each step with its inputs, and the outputs together.
int64_t least_peak(const Compact& graph);

/// The best such bound that is found within `max_work` by last paths (last_path.h), at least `least` and at most
/// `most`.
int64_t least_peak_by_paths(const Compact& compact, const Graph& graph, int64_t least, int64_t most, int64_t max_work);

/// No schedule in order within the budget takes less time than total_time plus this. INFINITY if none can exist.
double least_extra_time(const Compact& graph, const Graph& source, int64_t budget_bytes);

}  // namespace encore::plan
