// The independent checker of schedules: slow, and written straight from the problem statement.
#pragma once

#include <cstdint>
#include <string>

#include <encore/export.h>
#include <encore/plan/graph.h>
#include <encore/plan/schedule.h>

namespace encore::plan {

struct Verdict {
  bool valid = false;
  std::string problem;  ///< The first thing that is wrong; empty if valid.
  double time = 0;
  int64_t peak_bytes = 0;
  /// Whether the first computations of the steps are in the order of the graph. A runtime whose user code decides the
  /// order needs that; plan() only gives such schedules.
  bool in_order = false;
};

/// A schedule is valid if every op's inputs are resident and its value is not, every step is computed at least once,
/// and the outputs are resident as themselves at the end. Shares no code with simulate() and adds up all resident bytes
/// anew at every op.
ENCORE_API Verdict validate(const Graph& graph, const Schedule& schedule);

}  // namespace encore::plan
