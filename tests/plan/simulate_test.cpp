// Simulator, validator and table of stages agree with each other on any schedule.
#include <encore/plan/simulate.h>

#include <gtest/gtest.h>

#include <encore/error.h>
#include <encore/plan/validate.h>

#include "../../bench/plan/small_graphs.h"
#include "plan/search.h"

namespace encore::plan {
namespace {

Graph pair() {
  Graph graph;
  graph.steps = {{"a", 2, 10, 5, {}, {{"half", 4, 0.5, 0.25}}}, {"b", 3, 7, 0, {0}, {}}};
  graph.outputs = {1};
  return graph;
}

std::string simulated_problem(const Graph& graph, const Schedule& schedule) {
  try {
    simulate(graph, schedule);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(Simulate, CountsTemporaryBytesOnlyWhileRunning) {
  const Schedule schedule{{OpKind::kCompute, 0, 0}, {OpKind::kCompute, 1, 0}, {OpKind::kDrop, 0, 0}};
  const Cost cost = simulate(pair(), schedule);
  EXPECT_EQ(cost.peak_bytes, 17);
  EXPECT_EQ(cost.time, 5);
  EXPECT_EQ(cost.computes, 2);
  EXPECT_EQ(validate(pair(), schedule).peak_bytes, 17);
}

TEST(Simulate, BothFormsAreThereWhileEncoding) {
  const Schedule schedule{{OpKind::kCompute, 0, 0},
                          {OpKind::kEncode, 0, 0},
                          {OpKind::kDecode, 0, 0},
                          {OpKind::kCompute, 1, 0},
                          {OpKind::kEncode, 0, 0}};
  const Cost cost = simulate(pair(), schedule);
  EXPECT_EQ(cost.peak_bytes, 21);  // The value, its half, and b at the last encode.
  EXPECT_EQ(cost.time, 2 + 3 + 2 * 0.5 + 0.25);
  const Verdict verdict = validate(pair(), schedule);
  EXPECT_TRUE(verdict.valid) << verdict.problem;
  EXPECT_EQ(verdict.peak_bytes, cost.peak_bytes);
  EXPECT_EQ(verdict.time, cost.time);
}

TEST(Simulate, BothRefuseWrongSchedules) {
  const Op a{OpKind::kCompute, 0, 0};
  const Op b{OpKind::kCompute, 1, 0};
  const Op drop_a{OpKind::kDrop, 0, 0};
  const std::vector<Schedule> wrong = {
      {},
      {a},
      {b},
      {a, a},
      {a, drop_a, b},
      {drop_a},
      {a, b, {OpKind::kDrop, 1, 0}},
      {a, {OpKind::kEncode, 0, 0}, b},
      {a, {OpKind::kEncode, 0, 0}, a},
      {a, {OpKind::kEncode, 0, 1}, b},
      {a, {OpKind::kEncode, 0, -1}, b},
      {a, b, {OpKind::kDecode, 0, 0}},
      {a, b, {OpKind::kCompute, 2, 0}},
      {a, b, {OpKind::kDrop, -1, 0}},
  };
  for (size_t k = 0; k < wrong.size(); ++k) {
    EXPECT_NE(simulated_problem(pair(), wrong[k]), "") << k;
    EXPECT_FALSE(validate(pair(), wrong[k]).valid) << k;
    EXPECT_NE(validate(pair(), wrong[k]).problem, "") << k;
  }
  EXPECT_EQ(simulated_problem(pair(), {a, b}), "");
}

TEST(Simulate, ValuesWithoutBytesOrTimeAreFine) {
  Graph graph;
  graph.steps = {{"", 0, 0, 0, {}, {}}, {"", 0, 0, 0, {0, 0}, {}}};
  EXPECT_EQ(baseline(graph).peak_bytes, 0);
  EXPECT_EQ(baseline(graph).time, 0);
}

// Random recomputations, added and taken back: the table must always be what the checker says.
TEST(Stages, AgreeWithTheValidatorAfterAnyChange) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const auto& families = bench::small_families();
    Graph graph = bench::small_graph(families[seed % families.size()], 8, seed);
    for (size_t i = 0; i < graph.steps.size(); i += 2) {
      graph.steps[i].variants = {{"half", graph.steps[i].bytes / 2, 0.5, 0.25},
                                 {"pack", graph.steps[i].bytes / 8, 2, 1}};
      graph.steps[i].held_until = seed % 2 == 0 && i % 6 == 0 ? static_cast<int32_t>(i + seed % 7) : -1;
    }
    for (size_t i = 0; i < graph.steps.size(); ++i) {
      graph.steps[i].background_bytes = static_cast<int64_t>(i * seed % 5);
      graph.steps[i].held_until = std::min(graph.steps[i].held_until, static_cast<int32_t>(graph.steps.size()) - 1);
    }
    const Compact compact(graph);
    Stages stages(compact, graph, 60);
    Random random(seed);
    for (int round = 0; round < 60; ++round) {
      const int32_t t = 1 + random.below(compact.n);
      const int32_t step = random.below(t);
      stages.begin();
      const double time = stages.extra_time();
      const double excess = stages.excess();
      if (!compact.may_recompute(step, t)) {
        continue;
      }
      if (random.below(4) == 0 && step % 2 == 0) {
        stages.set_form(step, random.below(3) - 1);
      } else if (stages.computed_at(t, step)) {
        stages.remove(t, step);
        stages.remove_useless(t, step);
      } else {
        stages.add(t, step);
      }
      if (random.below(3) == 0) {
        stages.rollback();
        EXPECT_EQ(stages.extra_time(), time);
        EXPECT_EQ(stages.excess(), excess);
      }
      const Verdict verdict = validate(graph, stages.schedule());
      ASSERT_TRUE(verdict.valid) << verdict.problem;
      EXPECT_TRUE(verdict.in_order);
      EXPECT_EQ(static_cast<double>(verdict.peak_bytes), stages.max_peak());
      EXPECT_EQ(verdict.time, compact.total_time + stages.extra_time());
      const Cost cost = simulate(graph, stages.schedule());
      EXPECT_EQ(cost.peak_bytes, verdict.peak_bytes);
      EXPECT_EQ(cost.time, verdict.time);
    }
  }
}

}  // namespace
}  // namespace encore::plan
