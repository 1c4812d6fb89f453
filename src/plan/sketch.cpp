// A plan at once: one run that makes room as it goes, where plan() searches.
#include <algorithm>
#include <memory>

#include <encore/error.h>
#include <encore/plan/planner.h>
#include <encore/plan/simulate.h>

#include "plan/bounds.h"
#include "plan/evicting.h"
#include "plan/ladder_limits.h"
#include "plan/search.h"

namespace encore::plan {
namespace {

// A run that comes nowhere is given up after so much work: it takes a few times as many operations as it has steps.
constexpr int64_t sketch_work(int32_t n) {
  return 2 * kWorkUnit + 2'000 * static_cast<int64_t>(n);
}

}  // namespace

Plan sketch(const Graph& graph, int64_t budget_bytes) {
  check(graph);
  const Compact compact(graph);
  const Baseline base = baseline(graph);
  Plan plan;
  plan.budget_bytes = budget_bytes;
  plan.baseline_time = plan.lower_bound_time = base.time;
  plan.baseline_peak_bytes = base.peak_bytes;
  plan.min_bytes_lower_bound = least_peak(compact);
  const auto offer = [&](Schedule schedule, const char* method) {
    const Cost cost = simulate(graph, schedule);
    if (cost.peak_bytes <= budget_bytes && (!plan.feasible || cost.time < plan.time)) {
      plan.feasible = true;
      plan.schedule = std::move(schedule);
      plan.time = cost.time;
      plan.peak_bytes = plan.min_feasible_bytes = cost.peak_bytes;
      plan.method = method;
    }
  };
  if (base.peak_bytes <= budget_bytes) {
    offer(plain_schedule(compact), "plain");
    return plan;
  }
  int64_t work = 0;
  for (const Worth& worth : kWorths) {
    EvictingRun run = run_evicting(compact, static_cast<double>(budget_bytes), worth, sketch_work(compact.n), &work);
    if (run.done) {
      tidy(compact, static_cast<double>(budget_bytes), sketch_work(compact.n), &run);
      offer(std::move(run.schedule), "eviction with foresight");
      break;
    }
    if (work > 2 * sketch_work(compact.n)) {
      break;
    }
  }
  return plan;
}

}  // namespace encore::plan
