// More memory, more effort or fewer bytes are never slower, and a least budget is one.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>

#include <encore/plan/planner.h>
#include <encore/plan/validate.h>

#include "../../bench/plan/net.h"
#include "../../bench/plan/small_graphs.h"
#include "plan/bounds.h"
#include "plan/ladder.h"

namespace encore::plan {
namespace {

struct Case {
  std::string name;
  Graph graph;
};

/// Holds some values, lets some rest in smaller forms, and puts bytes behind the steps.
void complicate(Graph* graph, bench::Dice* dice) {
  const auto n = static_cast<int32_t>(graph->steps.size());
  for (int32_t i = 0; i < n; ++i) {
    Step& step = graph->steps[static_cast<size_t>(i)];
    step.background_bytes = dice->roll(0, 9);
    if (dice->roll(0, 4) == 0) {
      step.held_until = std::min(n - 1, i + dice->roll(1, 6));
    }
    if (dice->roll(0, 3) == 0) {
      step.variants.push_back({"pack", step.bytes / 4, 0.5, 0.5});
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  uint64_t seed = 500;
  for (const std::string& family : bench::small_families()) {
    for (const int32_t length : {7, 18}) {
      all.push_back({family + std::to_string(length), bench::small_graph(family, length, ++seed)});
    }
  }
  for (const int32_t steps : {50, 110}) {
    all.push_back({"layered" + std::to_string(steps), bench::random_layered(steps, 6, ++seed)});
    all.push_back({"complicated" + std::to_string(steps), bench::random_layered(steps, 4, ++seed)});
    bench::Dice dice(seed);
    complicate(&all.back().graph, &dice);
  }
  all.push_back({"window", bench::window(bench::random_layered(250, 6, 7), 100, 45)});
  all.push_back({"tree", bench::tree_lstm(2, 16, 4)});
  all.push_back({"gan", bench::unrolled_gan(2, 32, 32)});
  return all;
}

PlanOptions with(int64_t effort, int64_t states) {
  PlanOptions options;
  options.effort = effort;
  options.exact_states = states;
  return options;
}

void expect_valid(const Graph& graph, const Schedule& schedule, int64_t budget, double bound_time) {
  const Verdict verdict = validate(graph, schedule);
  ASSERT_TRUE(verdict.valid) << verdict.problem;
  EXPECT_TRUE(verdict.in_order);
  EXPECT_LE(verdict.peak_bytes, budget);
  EXPECT_LE(bound_time, verdict.time * (1 + 1e-12));
}

// One ladder serves all budgets of a graph: what it answers must not depend on what it was asked before, which a plan
// of its own shows at one of them.
TEST(Monotone, MoreMemoryIsNeverSlowerAndTheLeastBudgetIsOne) {
  for (const auto& [name, graph] : cases()) {
    for (const int64_t states : {0, 2'000}) {
      SCOPED_TRACE(name + ", states " + std::to_string(states));
      const PlanOptions options = with(2, states);
      const Compact compact(graph);
      Ladder ladder(graph, compact, options);
      const int64_t peak = baseline(graph).peak_bytes;
      const int64_t least = ladder.least_bytes();
      EXPECT_FALSE(plan(graph, least - 1, options).feasible);
      EXPECT_LE(ladder.least_bound(), least);
      EXPECT_GE(ladder.least_bound(), least_peak(compact));
      double above = 0;
      for (int64_t k = 5; k >= 0; --k) {
        const int64_t budget = least + (peak - least) * k * k / 36;
        const Ladder::Found found = ladder.best_within(budget);
        EXPECT_GE(found.extra_time, above * (1 - 1e-12)) << budget << " of " << peak;
        expect_valid(graph, found.schedule, budget, compact.total_time + ladder.bound(budget));
        above = found.extra_time;
        if (k == 2) {
          const Plan alone = plan(graph, budget, options);
          ASSERT_TRUE(alone.feasible) << budget << " of " << peak << ", least " << least;
          EXPECT_EQ(alone.min_feasible_bytes, least);
          EXPECT_EQ(alone.schedule, found.schedule);
        }
      }
    }
  }
}

// Rungs that are far behind are not searched to their end, which must not show: a plan alone leaves out others than the
// plan for a little less does.
TEST(Monotone, WhatIsLeftOutOfASearchCouldNotHaveWon) {
  const Graph graph = bench::random_layered(160, 5, 11);
  const auto peak = static_cast<double>(baseline(graph).peak_bytes);
  const int64_t least = plan(graph, 0, with(30, 0)).min_feasible_bytes;
  double before = INFINITY;
  for (int k = 0; k < 20; ++k) {
    const int64_t budget = least + static_cast<int64_t>(k * 0.006 * peak);
    const Plan answer = plan(graph, budget, with(30, 0));
    ASSERT_TRUE(answer.feasible);
    EXPECT_LE(answer.time, before * (1 + 1e-12)) << budget << " of " << peak;
    before = answer.time;
  }
}

TEST(Monotone, MoreEffortIsNeverSlower) {
  for (const auto& [name, graph] : cases()) {
    SCOPED_TRACE(name);
    const Compact compact(graph);
    const int64_t peak = baseline(graph).peak_bytes;
    std::map<int64_t, double> before;
    for (const int64_t effort : {0, 10, 60}) {
      const PlanOptions options = with(effort, 0);
      Ladder ladder(graph, compact, options);
      const int64_t least = ladder.least_bytes();
      for (const int64_t part : {0, 1, 3}) {
        const int64_t budget = least + (peak - least) * part / 8;
        const Ladder::Found found = ladder.best_within(budget);
        const double time = found.extra_time;
        expect_valid(graph, found.schedule, budget, compact.total_time + ladder.bound(budget));
        // At another budget, were the least another one.
        const double less = before.emplace(budget, effort == 0 ? INFINITY : -1).first->second;
        EXPECT_LE(time, less * (1 + 1e-12)) << "effort " << effort;
        before[budget] = time;
      }
    }
  }
}

TEST(Monotone, FewerBytesAreNeverSlowerWhereTheSearchIsExact) {
  int compared = 0;
  for (auto [name, graph] : cases()) {
    SCOPED_TRACE(name);
    if (graph.steps.size() > 20) {
      continue;
    }
    const Plan least = plan(graph, 0);
    const int64_t budget = (least.min_feasible_bytes + baseline(graph).peak_bytes) / 2;
    const Plan whole = plan(graph, budget);
    for (Step& step : graph.steps) {
      const int64_t bytes = std::exchange(step.bytes, 0);
      const Plan without = plan(graph, budget);
      ASSERT_TRUE(without.feasible);
      EXPECT_LE(without.time, whole.time * (1 + 1e-12)) << step.name;
      EXPECT_LE(plan(graph, 0).min_feasible_bytes, least.min_feasible_bytes) << step.name;
      step.bytes = bytes;
      ++compared;
    }
  }
  EXPECT_GE(compared, 60);
}

}  // namespace
}  // namespace encore::plan
