// More memory, more effort or fewer bytes are never slower, and a least budget is one.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include <encore/plan/planner.h>
#include <encore/plan/validate.h>

#include "../../bench/plan/net.h"
#include "../../bench/plan/small_graphs.h"

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

void expect_valid(const Graph& graph, const Plan& plan) {
  const Verdict verdict = validate(graph, plan.schedule);
  ASSERT_TRUE(verdict.valid) << verdict.problem;
  EXPECT_TRUE(verdict.in_order);
  EXPECT_LE(verdict.peak_bytes, plan.budget_bytes);
  EXPECT_DOUBLE_EQ(verdict.time, plan.time);
  EXPECT_LE(plan.lower_bound_time, plan.time * (1 + 1e-12));
}

TEST(Monotone, MoreMemoryIsNeverSlowerAndTheLeastBudgetIsOne) {
  for (const auto& [name, graph] : cases()) {
    for (const int64_t states : {0, 2'000}) {
      SCOPED_TRACE(name + ", states " + std::to_string(states));
      const PlanOptions options = with(2, states);
      const int64_t peak = baseline(graph).peak_bytes;
      const int64_t least = plan(graph, 0, options).min_feasible_bytes;
      EXPECT_FALSE(plan(graph, least - 1, options).feasible);
      double before = INFINITY;
      for (int64_t k = 0; k <= 6; ++k) {
        const int64_t budget = least + (peak - least) * k * k / 36;
        const Plan answer = plan(graph, budget, options);
        ASSERT_TRUE(answer.feasible) << budget << " of " << peak << ", least " << least;
        EXPECT_EQ(answer.min_feasible_bytes, least);
        EXPECT_LE(answer.time, before * (1 + 1e-12)) << budget << " of " << peak;
        expect_valid(graph, answer);
        before = answer.time;
      }
    }
  }
}

TEST(Monotone, MoreEffortIsNeverSlower) {
  for (const auto& [name, graph] : cases()) {
    SCOPED_TRACE(name);
    const int64_t peak = baseline(graph).peak_bytes;
    const int64_t least = plan(graph, 0, with(0, 0)).min_feasible_bytes;
    for (const int64_t part : {0, 1, 3}) {
      double before = INFINITY;
      for (const int64_t effort : {0, 10, 60}) {
        const Plan answer = plan(graph, least + (peak - least) * part / 8, with(effort, 0));
        ASSERT_TRUE(answer.feasible);
        EXPECT_EQ(answer.min_feasible_bytes, least);
        EXPECT_LE(answer.time, before * (1 + 1e-12)) << "effort " << effort;
        before = answer.time;
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
