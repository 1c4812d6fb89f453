// What a schedule costs: the fast implementation. validate.h is the independent one.
#pragma once

#include <cstdint>

#include <encore/export.h>
#include <encore/plan/graph.h>
#include <encore/plan/schedule.h>

namespace encore::plan {

struct Cost {
  double time = 0;
  int64_t peak_bytes = 0;
  int64_t computes = 0;  ///< Computations in all, repeated ones included.
};

/// Runs the schedule in one pass. Throws InvalidArgument naming the first op that can't be, or the step that was never
/// computed, or the output that isn't there at the end. The graph must have passed check().
ENCORE_API Cost simulate(const Graph& graph, const Schedule& schedule);

}  // namespace encore::plan
