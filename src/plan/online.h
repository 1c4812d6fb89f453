// Eviction as one does it who doesn't know what comes: a start that is worse than the others nearly everywhere.
#pragma once

#include <cstdint>

#include <encore/plan/graph.h>

#include "plan/evicting.h"

namespace encore::plan {

/// The steps in order, and where one doesn't fit, the value goes with the least (time to have it again, with what is
/// gone around it) / (bytes x time since it was used): dynamic tensor rematerialization (Kirisame et al. 2021). What is
/// gone comes back one input after another. A plan that is never slower than this run is never slower than DTR. Given
/// up at `most_extra_time` and after `max_work`, which is counted on `work`.
EvictingRun run_online(const Graph& graph, int64_t budget, double most_extra_time, int64_t max_work, int64_t* work);

}  // namespace encore::plan
