// Plans at many budgets, each no slower than the one below it.
#include <encore/plan/curve.h>

#include <algorithm>

#include <encore/error.h>
#include <encore/plan/simulate.h>

#include "plan/ladder.h"

namespace encore::plan {
namespace {

// Keeps the points that are faster than every one with a lower peak.
std::vector<CurvePoint> envelope(std::vector<CurvePoint> points) {
  std::stable_sort(points.begin(), points.end(), [](const CurvePoint& a, const CurvePoint& b) {
    return a.budget_bytes != b.budget_bytes ? a.budget_bytes < b.budget_bytes : a.time < b.time;
  });
  std::vector<CurvePoint> kept;
  for (CurvePoint& point : points) {
    if (kept.empty() || point.time < kept.back().time) {
      kept.push_back(std::move(point));
    }
  }
  return kept;
}

void check_points(const CurveOptions& options) {
  if (options.points < 1) {
    throw InvalidArgument("curve: points is " + std::to_string(options.points) + "; at least 1 is needed");
  }
}

}  // namespace

std::vector<CurvePoint> curve(const Graph& graph, const CurveOptions& options) {
  check(graph);
  check_points(options);
  const Compact compact(graph);
  const Baseline base = baseline(graph);
  Ladder ladder(graph, compact, options.plan);
  const int64_t low = ladder.least_bytes();
  std::vector<CurvePoint> points{{base.peak_bytes, base.time, base.time, plain_schedule(compact)}};
  for (int32_t k = 0; k < options.points; ++k) {
    const double part = static_cast<double>(k) / options.points;
    const auto budget = low + static_cast<int64_t>(part * static_cast<double>(base.peak_bytes - low));
    if (budget < base.peak_bytes) {
      Ladder::Found found = ladder.best_within(budget);
      const Cost cost = simulate(graph, found.schedule);
      const double bound = std::min(cost.time, base.time + ladder.bound(cost.peak_bytes));
      points.push_back({cost.peak_bytes, cost.time, bound, std::move(found.schedule)});
    }
    if (options.plan.progress) {
      options.plan.progress(static_cast<double>(k + 1) / options.points);
    }
  }
  return envelope(std::move(points));
}

std::vector<CurvePoint> curve(const Chain& chain, const CurveOptions& options) {
  check(chain);
  check_points(options);
  const Graph graph = to_graph(chain);
  if (chain.stages.size() > 1000) {
    return curve(graph, options);
  }
  ChainOptions chain_options;
  chain_options.exact = options.plan.exact;
  const ChainSolution solution = solve(chain, chain_options);
  const auto& corners = solution.curve();
  std::vector<CurvePoint> points;
  const size_t count = std::min(corners.size(), static_cast<size_t>(options.points) + 1);
  for (size_t k = 0; k < count; ++k) {
    const ChainPoint& corner = corners[count == 1 ? 0 : k * (corners.size() - 1) / (count - 1)];
    Schedule schedule = solution.schedule(corner.bytes);
    const Cost cost = simulate(graph, schedule);
    double bound = cost.time;
    for (const ChainPoint& other : corners) {
      if (static_cast<double>(other.bytes) <= static_cast<double>(corner.bytes) * (1 + solution.rounding())) {
        bound = std::min(bound, other.time);
      }
    }
    points.push_back({cost.peak_bytes, cost.time, bound, std::move(schedule)});
  }
  return envelope(std::move(points));
}

}  // namespace encore::plan
