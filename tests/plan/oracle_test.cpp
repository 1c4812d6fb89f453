// The planner against optima of Checkmate's integer programme, solved by HiGHS beforehand. The golden file is made by
//   bench_plan_oracle_graphs 110 | bench/plan/oracle.py solve > tests/plan/golden/oracle.jsonl
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include <encore/plan/json.h>
#include <encore/plan/planner.h>
#include <encore/plan/simulate.h>
#include <encore/plan/validate.h>

#include "plan/ladder.h"

namespace encore::plan {
namespace {

struct Tally {
  int cases = 0;
  int infeasible = 0;  // Where the optimum isn't.
  int faster = 0;
  double sum = 0;
  double worst = 0;
};

/// As plan() answers, from a ladder that serves all budgets of its graph.
Plan answer_of(Ladder* ladder, const Graph& graph, int64_t budget) {
  Plan answer;
  answer.feasible = budget >= ladder->least_bytes();
  if (answer.feasible) {
    answer.schedule = ladder->best_within(budget).schedule;
    answer.time = simulate(graph, answer.schedule).time;
    answer.lower_bound_time = baseline(graph).time + ladder->bound(budget);
  }
  return answer;
}

// The exact search may order recomputations in ways that the integer programme can't, so it may be faster.
Tally compare(const PlanOptions& options, bool one_ladder, bool may_be_faster, double worst_gap) {
  Tally tally;
  std::ifstream file(ENCORE_GOLDEN_DIR "/oracle.jsonl");
  EXPECT_TRUE(file.is_open());
  int graphs = 0;
  for (std::string line; std::getline(file, line); ++graphs) {
    const auto golden = nlohmann::json::parse(line);
    const std::string name = golden["name"];
    const Graph graph = std::get<Graph>(read_problem(golden["graph"].dump(), name));
    const Compact compact(graph);
    std::optional<Ladder> ladder;
    if (one_ladder) {
      ladder.emplace(graph, compact, options);
    }
    for (size_t k = 0; k < golden["budgets"].size(); ++k) {
      const int64_t budget = golden["budgets"][k];
      if (golden["optimum"][k].is_null() || !golden["proven"][k]) {
        continue;
      }
      const double optimum = golden["optimum"][k];
      const Plan answer = ladder ? answer_of(&*ladder, graph, budget) : plan(graph, budget, options);
      if (!answer.feasible) {
        ++tally.infeasible;
        std::printf("%s at %lld: no schedule known, the optimum is %g\n", name.c_str(), static_cast<long long>(budget),
                    optimum);
        continue;
      }
      const Verdict verdict = validate(graph, answer.schedule);
      EXPECT_TRUE(verdict.valid) << name << ": " << verdict.problem;
      EXPECT_TRUE(verdict.in_order);
      EXPECT_LE(verdict.peak_bytes, budget);
      EXPECT_DOUBLE_EQ(verdict.time, answer.time);
      EXPECT_LE(answer.lower_bound_time, optimum * (1 + 1e-6)) << name << " at " << budget;
      const double gap = answer.time / optimum - 1;
      EXPECT_TRUE(gap >= -1e-6 || may_be_faster) << name << " at " << budget << ": better than the optimum";
      EXPECT_LE(gap, worst_gap) << name << " at " << budget;
      ++tally.cases;
      tally.faster += gap < -1e-6 ? 1 : 0;
      tally.sum += gap;
      tally.worst = std::max(tally.worst, gap);
    }
  }
  EXPECT_GE(graphs, 100);
  EXPECT_GE(tally.cases, 250);
  return tally;
}

TEST(Oracle, LocalSearchAloneIsCloseToTheOptimum) {
  PlanOptions options;
  options.exact_states = 0;
  options.effort = 60;  // Less than by default, for the time of the test.
  const Tally tally = compare(options, true, false, 0.07);
  // At budgets 5% above the least feasible one the search can miss the only ways there are; the planner itself solves
  // graphs of this size exactly.
  EXPECT_LE(tally.infeasible, 2);
  EXPECT_LE(tally.sum / tally.cases, 0.002);
  std::printf("local search: %d cases, average %.4f%%, worst %.3f%%\n", tally.cases, 100 * tally.sum / tally.cases,
              100 * tally.worst);
}

TEST(Oracle, ThePlannerAsItIsKeepsTheOptimum) {
  const Tally tally = compare({}, false, true, 1e-6);
  EXPECT_EQ(tally.infeasible, 0);
  EXPECT_LE(tally.worst, 1e-6);
  std::printf("planner: %d cases, average %.4f%%, worst %.3f%%, %d faster by another order in a stage\n", tally.cases,
              100 * tally.sum / tally.cases, 100 * tally.worst, tally.faster);
}

}  // namespace
}  // namespace encore::plan
