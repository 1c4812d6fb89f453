// Dynamic tensor rematerialization (Kirisame et al. 2021), as a peer: eviction while the steps run, without a look
// ahead.
#pragma once

#include <cstdint>

#include <encore/plan/graph.h>

namespace encore::plan::bench {

struct DtrResult {
  bool done = false;  ///< False: out of memory, or more than `max_computes` computations.
  double time = 0;
  int64_t peak_bytes = 0;
};

/// Runs the steps in order within the budget. When memory is short, the value with the least (own time + time of its
/// evicted neighbourhood, by union-find) / (bytes x time since its last use) goes. A value that no step reads any more
/// is freed at once, as when the user's last reference goes; it is computed again if others' recomputation needs it.
DtrResult dtr(const Graph& graph, int64_t budget_bytes, int64_t max_computes);

}  // namespace encore::plan::bench
