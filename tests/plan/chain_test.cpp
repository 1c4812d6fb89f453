// Chains: equal to brute force and to the closed form, rounding on the safe side, repeated stages.
#include <encore/plan/chain.h>

#include <gtest/gtest.h>

#include <cmath>

#include <encore/error.h>
#include <encore/plan/planner.h>
#include <encore/plan/validate.h>

#include "../../bench/plan/small_graphs.h"
#include "plan/brute_chain.h"

namespace encore::plan {
namespace {

Chain random_chain(int32_t stages, uint64_t seed) {
  bench::Dice dice(seed);
  Chain chain;
  chain.input_bytes = dice.roll(0, 9);
  for (int32_t s = 0; s < stages; ++s) {
    Stage stage;
    stage.forward_time = dice.roll(0, 9);
    stage.backward_time = dice.roll(0, 9);
    stage.output_bytes = dice.roll(0, 9);
    stage.saved_bytes = stage.output_bytes + dice.roll(0, 2) * dice.roll(0, 9);
    stage.forward_temp_bytes = dice.roll(0, 2) == 0 ? dice.roll(0, 20) : 0;
    stage.backward_temp_bytes = dice.roll(0, 2) == 0 ? dice.roll(0, 20) : 0;
    chain.stages.push_back(stage);
  }
  return chain;
}

double time_at(const std::vector<ChainPoint>& curve, int64_t bytes) {
  double time = INFINITY;
  for (const ChainPoint& point : curve) {
    if (point.bytes <= bytes) {
      time = point.time;
    }
  }
  return time;
}

// Every corner's schedule, by the independent checker.
void expect_corners_hold(const Chain& chain, const ChainSolution& solution) {
  const Graph graph = to_graph(chain);
  for (const ChainPoint& point : solution.curve()) {
    const Verdict verdict = validate(graph, solution.schedule(point.bytes));
    ASSERT_TRUE(verdict.valid) << verdict.problem;
    EXPECT_TRUE(verdict.in_order);
    EXPECT_EQ(verdict.peak_bytes, point.bytes);
    EXPECT_NEAR(verdict.time, point.time, 1e-9 * point.time);
  }
}

TEST(Chain, EqualsBruteForceAtEveryBudget) {
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    const Chain chain = random_chain(1 + static_cast<int32_t>(seed % 6), seed);
    ChainOptions options;
    options.exact = true;
    const ChainSolution solution = solve(chain, options);
    const auto expected = BruteChain(chain).front();
    ASSERT_EQ(solution.curve().size(), expected.size()) << "seed " << seed;
    for (size_t k = 0; k < expected.size(); ++k) {
      ASSERT_EQ(solution.curve()[k].bytes, expected[k].bytes) << "seed " << seed;
      ASSERT_DOUBLE_EQ(solution.curve()[k].time, expected[k].time) << "seed " << seed;
    }
    EXPECT_EQ(solution.rounding(), 0);
    expect_corners_hold(chain, solution);
  }
}

// Forward steps besides those that save: r l - C(c + r, r - 1), with the least r for which C(c + r, c) >= l.
double binomial_forwards(int l, int c) {
  const auto choose = [](int n, int k) {
    double value = 1;
    for (int i = 1; i <= k; ++i) {
      value = value * (n - k + i) / i;
    }
    return k < 0 ? 0.0 : std::round(value);
  };
  int r = 0;
  while (choose(c + r, c) < l) {
    ++r;
  }
  return static_cast<double>(r) * l - choose(c + r, r - 1);
}

TEST(Chain, UniformChainsEqualTheBinomialClosedForm) {
  // What a stage saves is so large that only one stage's fits: then the rest of the budget is slots for outputs. A
  // stage's backward takes 3 besides (its output and two gradients), and its input takes one that the closed form
  // doesn't count, since it holds the state that is being worked on.
  constexpr int64_t kSaved = 100'000;
  for (int l = 1; l <= 300; ++l) {
    Chain chain;
    chain.input_bytes = 1;
    chain.stages.assign(l, Stage{1, 2, 1, kSaved + 1, 0, 0});
    ChainOptions options;
    options.exact = true;
    options.max_bytes = kSaved + 4 + 20;
    const ChainSolution solution = solve(chain, options);
    for (int c = 1; c <= 20; ++c) {
      ASSERT_EQ(time_at(solution.curve(), kSaved + 4 + c), l + binomial_forwards(l, c) + 2 * l) << l << " " << c;
    }
    if (l % 50 == 0) {
      expect_corners_hold(chain, solution);
    }
  }
}

TEST(Chain, RoundingIsStatedAndOnTheSafeSide) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Chain chain = random_chain(24, seed);
    bench::Dice dice(seed);
    for (Stage& stage : chain.stages) {  // Bytes without a common measure, so that there are many corners.
      stage.output_bytes = stage.output_bytes * 99'991 + dice.roll(1, 50'000);
      stage.saved_bytes = stage.output_bytes + stage.saved_bytes * 99'989 + dice.roll(1, 50'000);
      stage.forward_time += dice.roll(1, 1000) / 1000.0;
    }
    ChainOptions exact;
    exact.exact = true;
    const ChainSolution truth = solve(chain, exact);
    const ChainSolution rounded = solve(chain);
    EXPECT_LE(rounded.rounding(), 0.001);
    EXPECT_EQ(rounded.min_feasible_bytes(), truth.min_feasible_bytes());
    EXPECT_LE(rounded.curve().size(), truth.curve().size());
    expect_corners_hold(chain, rounded);
    for (const ChainPoint& point : truth.curve()) {
      EXPECT_GE(time_at(rounded.curve(), point.bytes) * (1 + 1e-9), point.time);
      const auto moved = static_cast<int64_t>(static_cast<double>(point.bytes) * (1 + rounded.rounding()));
      EXPECT_LE(time_at(rounded.curve(), moved), point.time * (1 + 1e-9));
    }
  }
}

TEST(Chain, CurveFallsAndEndsAtThePlainTime) {
  const Chain chain = random_chain(40, 7);
  const ChainSolution solution = solve(chain);
  const auto& curve = solution.curve();
  for (size_t k = 1; k < curve.size(); ++k) {
    EXPECT_LT(curve[k - 1].bytes, curve[k].bytes);
    EXPECT_GT(curve[k - 1].time, curve[k].time);
  }
  EXPECT_DOUBLE_EQ(curve.back().time, baseline(to_graph(chain)).time);
}

TEST(Chain, LimitOnTheBudgetChangesNothingBelowIt) {
  const Chain chain = random_chain(20, 3);
  ChainOptions options;
  options.exact = true;
  const ChainSolution all = solve(chain, options);
  options.max_bytes = all.curve()[all.curve().size() / 2].bytes;
  const ChainSolution some = solve(chain, options);
  EXPECT_LE(some.curve().back().bytes, options.max_bytes);
  for (size_t k = 0; k < some.curve().size(); ++k) {
    EXPECT_EQ(some.curve()[k].bytes, all.curve()[k].bytes);
    EXPECT_DOUBLE_EQ(some.curve()[k].time, all.curve()[k].time);
  }
  options.max_bytes = 1;
  EXPECT_EQ(solve(chain, options).min_feasible_bytes(), all.min_feasible_bytes());
}

TEST(Chain, PlanGivesAnExactCertificate) {
  const Chain chain = random_chain(12, 5);
  PlanOptions options;
  options.exact = true;
  const int64_t least = plan(chain, 0, options).min_feasible_bytes;
  const Plan refused = plan(chain, least - 1, options);
  EXPECT_FALSE(refused.feasible);
  EXPECT_EQ(refused.min_feasible_bytes, least);
  EXPECT_EQ(refused.min_feasible_proof, Proof::kExact);
  const Plan answer = plan(chain, least, options);
  ASSERT_TRUE(answer.feasible);
  EXPECT_EQ(answer.lower_bound_proof, Proof::kExact);
  EXPECT_DOUBLE_EQ(answer.lower_bound_time, answer.time);
  EXPECT_TRUE(validate(to_graph(chain), answer.schedule).valid);
}

TEST(Chain, BadStagesAreRefusedByName) {
  const auto message = [](const Chain& chain) {
    try {
      check(chain);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  Chain chain = random_chain(3, 1);
  chain.stages[2].backward_time = -1;
  EXPECT_NE(message(chain).find("stage 2: backward_time"), std::string::npos) << message(chain);
  chain = random_chain(3, 1);
  chain.stages[1].saved_bytes = chain.stages[1].output_bytes - 1;
  EXPECT_NE(message(chain).find("stage 1: saved_bytes"), std::string::npos) << message(chain);
  chain.stages[1].saved_bytes = INT64_MAX;
  EXPECT_NE(message(chain).find("64 bits"), std::string::npos) << message(chain);
  EXPECT_NE(message({}).find("stages"), std::string::npos);
  EXPECT_THROW(static_cast<void>(solve(random_chain(3, 1)).schedule(0)), InvalidArgument);
}

}  // namespace
}  // namespace encore::plan
