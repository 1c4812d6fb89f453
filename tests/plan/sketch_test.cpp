// Plans at once: right wherever there is one.
#include <gtest/gtest.h>

#include <encore/plan/planner.h>
#include <encore/plan/simulate.h>
#include <encore/plan/validate.h>

#include "../../bench/plan/net.h"
#include "../../bench/plan/small_graphs.h"

namespace encore::plan {
namespace {

void expect_right(const Graph& graph, double part, bool must_be) {
  const Baseline plain = baseline(graph);
  const auto budget = static_cast<int64_t>(part * static_cast<double>(plain.peak_bytes));
  const Plan plan = sketch(graph, budget);
  EXPECT_EQ(plan.baseline_peak_bytes, plain.peak_bytes);
  EXPECT_TRUE(plan.feasible || !must_be);
  if (!plan.feasible) {
    EXPECT_TRUE(plan.schedule.empty());
    return;
  }
  const Verdict verdict = validate(graph, plan.schedule);
  ASSERT_TRUE(verdict.valid) << verdict.problem;
  EXPECT_TRUE(verdict.in_order);
  EXPECT_LE(verdict.peak_bytes, budget);
  EXPECT_EQ(verdict.peak_bytes, plan.peak_bytes);
  EXPECT_EQ(verdict.time, plan.time);
}

TEST(Sketch, IsAValidPlanOfRandomGraphsWhereThereIsOne) {
  for (const std::string& family : bench::small_families()) {
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      SCOPED_TRACE(family + " " + std::to_string(seed));
      for (const double part : {1.0, 0.9, 0.7, 0.5, 0.3}) {
        expect_right(bench::small_graph(family, 14, seed), part, part == 1);
      }
    }
  }
}

TEST(Sketch, IsThereForNetworksAtHalfTheirPeakAndNotFarFromTheSearched) {
  const std::vector<std::pair<std::string, Graph>> graphs = {{"resnet50", bench::resnet50(4, 128)},
                                                             {"gpt", bench::gpt(4, 256, 4, 128, 4, false)},
                                                             {"layered", bench::random_layered(250, 6, 3)},
                                                             {"gan", bench::unrolled_gan(2, 32, 32)}};
  for (const auto& [name, graph] : graphs) {
    SCOPED_TRACE(name);
    expect_right(graph, 0.5, /*must_be=*/true);
    PlanOptions options;
    options.effort = 2;
    options.exact_states = 0;
    const int64_t budget = baseline(graph).peak_bytes / 2;
    EXPECT_LE(sketch(graph, budget).time, plan(graph, budget, options).time * 1.1);
  }
}

TEST(Sketch, ABudgetThatFitsIsThePlainRun) {
  const Graph graph = bench::random_layered(60, 5, 9);
  const Plan plan = sketch(graph, baseline(graph).peak_bytes);
  EXPECT_EQ(plan.time, plan.baseline_time);
  EXPECT_EQ(plan.method, "plain");
}

}  // namespace
}  // namespace encore::plan
