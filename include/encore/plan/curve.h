// The whole memory/time curve of a problem.
#pragma once

#include <vector>

#include <encore/export.h>
#include <encore/plan/planner.h>

namespace encore::plan {

struct CurvePoint {
  int64_t budget_bytes = 0;  ///< The peak of the schedule: with this budget or more, this time.
  double time = 0;
  double lower_bound_time = 0;
  Schedule schedule;
};

struct CurveOptions {
  /// Budgets that are planned, evenly spaced from the least feasible one to the baseline's peak. For chains one solve
  /// gives all corners; only `points` of them carry on with more than that many corners.
  int32_t points = 24;
  PlanOptions plan;
};

/// Rising budgets, strictly falling times.
ENCORE_API std::vector<CurvePoint> curve(const Graph& graph, const CurveOptions& options = {});
ENCORE_API std::vector<CurvePoint> curve(const Chain& chain, const CurveOptions& options = {});

}  // namespace encore::plan
