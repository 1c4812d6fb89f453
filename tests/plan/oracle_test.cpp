// The planner against optima of Checkmate's integer programme, solved by HiGHS beforehand. The golden file is made by
//   bench_plan_oracle_graphs 110 | bench/plan/oracle.py solve > tests/plan/golden/oracle.jsonl
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include <encore/plan/json.h>
#include <encore/plan/planner.h>
#include <encore/plan/validate.h>

namespace encore::plan {
namespace {

struct Tally {
  int cases = 0;
  int infeasible = 0;  // Where the optimum isn't.
  double sum = 0;
  double worst = 0;
};

Tally compare(const PlanOptions& options) {
  Tally tally;
  std::ifstream file(ENCORE_GOLDEN_DIR "/oracle.jsonl");
  EXPECT_TRUE(file.is_open());
  int graphs = 0;
  for (std::string line; std::getline(file, line); ++graphs) {
    const auto golden = nlohmann::json::parse(line);
    const std::string name = golden["name"];
    const Graph graph = std::get<Graph>(read_problem(golden["graph"].dump(), name));
    for (size_t k = 0; k < golden["budgets"].size(); ++k) {
      const int64_t budget = golden["budgets"][k];
      if (golden["optimum"][k].is_null() || !golden["proven"][k]) {
        continue;
      }
      const double optimum = golden["optimum"][k];
      const Plan answer = plan(graph, budget, options);
      if (!answer.feasible) {
        ++tally.infeasible;
        ADD_FAILURE() << name << " at " << budget << ": no schedule, the optimum is " << optimum;
        continue;
      }
      const Verdict verdict = validate(graph, answer.schedule);
      EXPECT_TRUE(verdict.valid) << name << ": " << verdict.problem;
      EXPECT_TRUE(verdict.in_order);
      EXPECT_LE(verdict.peak_bytes, budget);
      EXPECT_DOUBLE_EQ(verdict.time, answer.time);
      EXPECT_LE(answer.lower_bound_time, optimum * (1 + 1e-6)) << name << " at " << budget;
      const double gap = answer.time / optimum - 1;
      EXPECT_GE(gap, -1e-6) << name << " at " << budget << ": better than the optimum";
      EXPECT_LE(gap, 0.05) << name << " at " << budget;
      ++tally.cases;
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
  const Tally tally = compare(options);
  EXPECT_EQ(tally.infeasible, 0);
  EXPECT_LE(tally.sum / tally.cases, 0.01);
  std::printf("local search: %d cases, average %.4f%%, worst %.3f%%\n", tally.cases, 100 * tally.sum / tally.cases,
              100 * tally.worst);
}

}  // namespace
}  // namespace encore::plan
