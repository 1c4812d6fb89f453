// The planner's promises: budgets kept, certificates true, the same plan again, curves that only fall.
#include <encore/plan/planner.h>

#include <gtest/gtest.h>

#include <encore/error.h>
#include <encore/plan/curve.h>
#include <encore/plan/json.h>
#include <encore/plan/validate.h>

#include "../../bench/plan/net.h"
#include "../../bench/plan/small_graphs.h"
#include "plan/exact.h"

namespace encore::plan {
namespace {

PlanOptions quick() {
  PlanOptions options;
  options.effort = 5;
  options.exact_states = 0;
  return options;
}

int64_t least_budget(const Graph& graph) {
  const ExactAnswer answer = exact_min_budget(Compact(graph), 10'000'000);
  EXPECT_TRUE(answer.finished);
  return validate(graph, answer.schedule).peak_bytes;
}

void expect_holds(const Graph& graph, const Plan& plan) {
  ASSERT_TRUE(plan.feasible);
  const Verdict verdict = validate(graph, plan.schedule);
  ASSERT_TRUE(verdict.valid) << verdict.problem;
  EXPECT_TRUE(verdict.in_order);
  EXPECT_EQ(verdict.peak_bytes, plan.peak_bytes);
  EXPECT_LE(plan.peak_bytes, plan.budget_bytes);
  EXPECT_DOUBLE_EQ(verdict.time, plan.time);
  EXPECT_LE(plan.lower_bound_time, plan.time * (1 + 1e-12));
  EXPECT_LE(plan.min_feasible_bytes, plan.budget_bytes);
  EXPECT_LE(plan.min_bytes_lower_bound, plan.min_feasible_bytes);
}

TEST(Planner, EnoughMemoryIsThePlainRun) {
  const Graph graph = bench::small_graph("residual", 9, 3);
  const Baseline base = baseline(graph);
  const Plan answer = plan(graph, base.peak_bytes);
  expect_holds(graph, answer);
  EXPECT_EQ(answer.time, base.time);
  EXPECT_EQ(answer.lower_bound_proof, Proof::kExact);
}

TEST(Planner, LocalSearchIsNeverBetterThanTheExactSearchAndClose) {
  double sum = 0;
  int cases = 0;
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    const auto& families = bench::small_families();
    const Graph graph = bench::small_graph(families[seed % families.size()], 8, 1000 + seed);
    const int64_t least = least_budget(graph);
    const int64_t peak = baseline(graph).peak_bytes;
    for (const int64_t budget : {least + (peak - least) / 4, (least + peak) / 2}) {
      const Plan search = plan(graph, budget, quick());
      const Plan exact = plan(graph, budget);
      ASSERT_EQ(exact.lower_bound_proof, Proof::kExact);
      expect_holds(graph, exact);
      if (search.feasible) {
        expect_holds(graph, search);
        EXPECT_GE(search.time, exact.time * (1 - 1e-12));
        EXPECT_LE(search.lower_bound_time, exact.time * (1 + 1e-12));
        sum += search.time / exact.time - 1;
        ++cases;
      }
    }
  }
  EXPECT_GE(cases, 45);
  EXPECT_LE(sum / cases, 0.01);
}

TEST(Planner, PaysForTheBackgroundAndKeepsWhatIsHeld) {
  int cases = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto& families = bench::small_families();
    Graph graph = bench::small_graph(families[seed % families.size()], 7, 2000 + seed);
    const auto n = static_cast<int32_t>(graph.steps.size());
    for (int32_t i = 0; i < n; ++i) {
      graph.steps[i].background_bytes = (i * 7 + static_cast<int64_t>(seed)) % 23;
      if (i % 4 == 1) {
        graph.steps[i].held_until = std::min(n - 1, i + 3 + static_cast<int32_t>(seed) % 5);
      }
    }
    const int64_t least = least_budget(graph);
    const int64_t peak = baseline(graph).peak_bytes;
    const int64_t budget = (least + peak) / 2;
    const Plan exact = plan(graph, budget);
    expect_holds(graph, exact);
    const Plan search = plan(graph, budget, quick());
    if (search.feasible) {
      expect_holds(graph, search);
      EXPECT_GE(search.time, exact.time * (1 - 1e-12));
      EXPECT_LE(search.time, exact.time * 1.1);
      ++cases;
    }
    EXPECT_LT(plan(graph, least - 1, quick()).feasible, true);
  }
  EXPECT_GE(cases, 18);
}

TEST(Planner, WhatWasHeldUntilAStepIsNotNeededToComputeThatStepAgain) {
  Graph graph;
  graph.steps.push_back({"held", 1, 10, 0, {}, {}, 0, 2});
  graph.steps.push_back({"small", 1, 1, 0, {}, {}});
  graph.steps.push_back({"value", 1, 5, 0, {1}, {}});
  graph.steps.push_back({"big", 1, 12, 0, {}, {}});
  graph.steps.push_back({"after", 1, 0, 0, {3}, {}});
  graph.steps.push_back({"last", 1, 0, 0, {2}, {}, 8});
  for (const int64_t states : {0, 100'000}) {
    PlanOptions options = quick();
    options.exact_states = states;
    const Plan answer = plan(graph, 16, options);
    expect_holds(graph, answer);
    EXPECT_EQ(answer.time, 7);
    EXPECT_EQ(answer.min_feasible_bytes, 16);
    EXPECT_EQ(answer.min_feasible_proof, Proof::kExact);
  }
}

/// Between the steps of a graph, others that make nothing: views, in-place ops, nodes that read nothing.
Graph with_empty_steps(const Graph& graph, bench::Dice* dice) {
  Graph mixed;
  std::vector<int32_t> place;
  for (Step step : graph.steps) {
    for (int32_t i = dice->roll(0, 2); i > 0; --i) {
      Step empty;
      empty.name = "empty";
      empty.time = dice->roll(0, 1);
      mixed.steps.push_back(empty);
    }
    for (int32_t& input : step.inputs) {
      input = place[static_cast<size_t>(input)];
    }
    place.push_back(static_cast<int32_t>(mixed.steps.size()));
    mixed.steps.push_back(std::move(step));
  }
  for (const int32_t output : graph.outputs) {
    mixed.outputs.push_back(place[static_cast<size_t>(output)]);
  }
  return mixed;
}

TEST(Planner, TheLowerBoundHoldsAmongStepsThatMakeNothing) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    bench::Dice dice(seed);
    const auto& families = bench::small_families();
    const Graph graph = with_empty_steps(bench::small_graph(families[seed % families.size()], 12, seed), &dice);
    const int64_t peak = baseline(graph).peak_bytes;
    for (const int64_t percent : {90, 75, 60}) {
      const Plan answer = plan(graph, peak * percent / 100, quick());
      if (answer.feasible) {
        expect_holds(graph, answer);
      }
    }
  }
}

/// A recurrent network: every cell reads a part of one large projection of all inputs, and backward needs what the
/// cells made, last cell first, but not the projection.
Graph recurrent(int32_t cells) {
  Graph graph;
  graph.steps.push_back({"projection", 0.2 * cells, 4 * cells, 0, {}, {}});
  for (int32_t i = 0; i < cells; ++i) {
    const auto n = static_cast<int32_t>(graph.steps.size());
    const std::vector<int32_t> inputs = i == 0 ? std::vector<int32_t>{0} : std::vector<int32_t>{0, n - 1};
    graph.steps.push_back({"gates", 1, 4, 0, inputs, {}});
    graph.steps.push_back({"state", 0.1, 2, 0, {n}, {}});
  }
  for (int32_t i = cells - 1; i >= 0; --i) {
    graph.steps.push_back({"backward", 2, 0, 1, {2 * i + 1, 2 * i + 2}, {}});
  }
  return graph;
}

TEST(Planner, ComputesWhatManyNeedInCommonOnce) {
  // With half of the cells' values kept, the projection has to come back for the others, but once.
  const Graph graph = recurrent(1000);
  const Plan answer = plan(graph, baseline(graph).peak_bytes * 3 / 4, quick());
  expect_holds(graph, answer);
  EXPECT_LE(answer.time, 1.3 * answer.baseline_time);
}

TEST(Planner, RefusesWithTheLeastBudgetThatWouldDo) {
  const Graph graph = bench::small_graph("skips", 8, 5);
  const Plan refused = plan(graph, 0);
  EXPECT_FALSE(refused.feasible);
  EXPECT_TRUE(refused.schedule.empty());
  EXPECT_EQ(refused.min_feasible_proof, Proof::kExact);
  expect_holds(graph, plan(graph, refused.min_feasible_bytes));
  EXPECT_FALSE(plan(graph, refused.min_feasible_bytes - 1).feasible);
  EXPECT_THROW(plan(graph, -1), InvalidArgument);
  EXPECT_THROW(plan(Graph{}, 1), InvalidArgument);
}

TEST(Planner, SaysWhichStepAndValuesMakeABudgetTooSmall) {
  Graph graph;
  graph.steps.push_back({"big", 1, 4000, 0, {}, {}});
  graph.steps.push_back({"small", 1, 10, 0, {0}, {}});
  graph.steps.push_back({"sum", 1, 500, 96, {0, 1}, {}});
  const Plan alone = plan(graph, 4000);
  EXPECT_FALSE(alone.feasible);
  EXPECT_EQ(alone.refusal,
            "step 2 ('sum') needs 4.5 KiB at once: 500 B for its value, 96 B while it runs, and it reads or finds held "
            "step 0 ('big') of 3.9 KiB, step 1 ('small') of 10 B");
  graph.outputs = {0, 1, 2};
  graph.steps[2].temp_bytes = 0;
  graph.steps.push_back({"last", 1, 9000, 0, {}, {}});
  graph.outputs.push_back(3);
  EXPECT_NE(plan(graph, 10'000).refusal.find("the outputs together are 13.2 KiB: step 3 ('last')"), std::string::npos);
  EXPECT_TRUE(plan(graph, 20'000).refusal.empty());
  // Between the largest step and the least budget: what is in memory at the peak of the tightest schedule.
  const Graph tight = bench::small_graph("skips", 14, 5);
  const Plan least = plan(tight, 0, quick());
  ASSERT_GT(least.min_feasible_bytes, least.min_bytes_lower_bound);
  const std::string words = plan(tight, least.min_feasible_bytes - 1, quick()).refusal;
  EXPECT_EQ(words.find("each step alone fits"), 0U) << words;
  EXPECT_NE(words.find(std::to_string(least.min_feasible_bytes) + " B are needed when step "), std::string::npos)
      << words;
}

TEST(Planner, SearchingForSecondsIsNeverSlower) {
  const Graph graph = bench::random_layered(120, 5, 3);
  const int64_t budget = baseline(graph).peak_bytes * 2 / 5;
  PlanOptions options = quick();
  const Plan before = plan(graph, budget, options);
  options.seconds = 0.3;
  const Plan after = plan(graph, budget, options);
  expect_holds(graph, after);
  EXPECT_LE(after.time, before.time);
}

TEST(Planner, TheLeastKnownBudgetOfALargeGraphIsKept) {
  const Graph graph = bench::resnet50(2);
  const Plan refused = plan(graph, 1, quick());
  EXPECT_FALSE(refused.feasible);
  EXPECT_LT(refused.min_feasible_bytes, refused.baseline_peak_bytes / 3);
  expect_holds(graph, plan(graph, refused.min_feasible_bytes, quick()));
}

TEST(Planner, TheLeastKnownBudgetIsNearItsBound) {
  const auto ratio = [](const Graph& graph) {
    const Plan refused = plan(graph, 1, quick());
    return static_cast<double>(refused.min_feasible_bytes) / static_cast<double>(refused.min_bytes_lower_bound);
  };
  EXPECT_LE(ratio(bench::random_layered(250, 6, 2)), 1.51);
  EXPECT_LE(ratio(bench::random_layered(260, 6, 20)), 1.45);
  EXPECT_LE(ratio(bench::segnet(8)), 1.003);
}

TEST(Planner, WhatItRefusesWithCanBePlannedWith) {
  // Sizes and limits at which the exact search finishes, gives up, or does one for memory and the other for time.
  for (const int32_t length : {6, 10, 16, 25, 31}) {
    for (const int64_t states : {0, 100, 3'000, 50'000}) {
      PlanOptions options = quick();
      options.exact_states = states;
      const auto& families = bench::small_families();
      for (size_t f = 0; f < families.size(); ++f) {
        const Graph graph = bench::small_graph(families[f], length, 77 + f);
        const Plan refused = plan(graph, 1, options);
        ASSERT_FALSE(refused.feasible);
        expect_holds(graph, plan(graph, refused.min_feasible_bytes, options));
      }
    }
  }
}

TEST(Planner, GivesTheSamePlanAgain) {
  const Graph graph = bench::unet(2);
  const int64_t budget = baseline(graph).peak_bytes / 2;
  const Plan first = plan(graph, budget, quick());
  const Plan second = plan(graph, budget, quick());
  expect_holds(graph, first);
  EXPECT_EQ(first.schedule, second.schedule);
}

TEST(Planner, RealShapesKeepTheBudget) {
  for (const auto& [name, graph] : bench::real_shapes()) {
    check(graph);
    if (graph.steps.size() > 2000) {
      continue;  // The slow checker takes minutes; the benchmark plans these too.
    }
    const int64_t budget = baseline(graph).peak_bytes * 7 / 10;
    SCOPED_TRACE(name);
    const Plan answer = plan(graph, budget, quick());
    expect_holds(graph, answer);
    EXPECT_LT(answer.time, 1.1 * answer.baseline_time);
  }
}

TEST(Planner, RecomputesAValueSeveralTimesWhereThatIsTheOnlyWay) {
  Chain chain;  // As a graph, with room for two outputs besides what backward needs.
  chain.input_bytes = 1;
  chain.stages.assign(12, Stage{1, 2, 1, 101, 0, 0});
  const Graph graph = to_graph(chain);
  const Plan answer = plan(graph, 107, quick());
  expect_holds(graph, answer);
  std::vector<int> times(graph.steps.size(), 0);
  for (const Op& op : answer.schedule) {
    times[op.step] += op.kind == OpKind::kCompute ? 1 : 0;
  }
  EXPECT_GE(*std::max_element(times.begin(), times.end()), 3);
}

TEST(Planner, RestsValuesInSmallerFormsWhereThatPays) {
  Graph graph = bench::small_graph("vgg", 10, 4);
  const int64_t budget = baseline(graph).peak_bytes * 3 / 4;
  const Plan without = plan(graph, budget, quick());
  for (Step& step : graph.steps) {
    step.variants.push_back({"pack", step.bytes / 4, 0.01, 0.01});
  }
  const Plan with = plan(graph, budget, quick());
  expect_holds(graph, with);
  EXPECT_LT(with.time, without.time);
  EXPECT_TRUE(
      std::any_of(with.schedule.begin(), with.schedule.end(), [](const Op& op) { return op.kind == OpKind::kEncode; }));
}

TEST(Planner, HeldValuesRestOnlyWhenTheyAreFree) {
  int encoded = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const auto& families = bench::small_families();
    Graph graph = bench::small_graph(families[seed % families.size()], 14, 3000 + seed);
    const auto n = static_cast<int32_t>(graph.steps.size());
    for (int32_t i = 0; i < n; ++i) {
      graph.steps[i].background_bytes = (i * 7 + static_cast<int64_t>(seed)) % 23;
      graph.steps[i].variants.push_back({"pack", graph.steps[i].bytes / 8, 0.01, 0.01});
      if (i % 4 == 1) {
        graph.steps[i].held_until = std::min(n - 1, i + 5 + static_cast<int32_t>(seed) % 5);
      }
    }
    for (const int64_t part : {6, 8, 9}) {
      const Plan answer = plan(graph, baseline(graph).peak_bytes * part / 10, quick());
      if (answer.feasible) {
        expect_holds(graph, answer);
        encoded += static_cast<int>(std::count_if(answer.schedule.begin(), answer.schedule.end(),
                                                  [](const Op& op) { return op.kind == OpKind::kEncode; }));
      }
    }
  }
  EXPECT_GT(encoded, 100);
}

TEST(Planner, VariantsThatDoNotPayAreLeftAlone) {
  Graph graph = bench::small_graph("vgg", 10, 4);
  for (Step& step : graph.steps) {
    step.variants.push_back({"slow", step.bytes, 1000, 1000});
  }
  const Plan answer = plan(graph, baseline(graph).peak_bytes * 3 / 4, quick());
  expect_holds(graph, answer);
  EXPECT_TRUE(std::all_of(answer.schedule.begin(), answer.schedule.end(),
                          [](const Op& op) { return op.kind == OpKind::kCompute || op.kind == OpKind::kDrop; }));
}

TEST(Curve, NeverGetsSlowerWithMoreMemoryAndEveryPointValidates) {
  const Graph graph = bench::mobilenet(2);
  CurveOptions options;
  options.points = 12;
  options.plan = quick();
  const auto points = curve(graph, options);
  ASSERT_GE(points.size(), 8U);
  for (size_t k = 0; k < points.size(); ++k) {
    const Verdict verdict = validate(graph, points[k].schedule);
    ASSERT_TRUE(verdict.valid) << verdict.problem;
    EXPECT_EQ(verdict.peak_bytes, points[k].budget_bytes);
    EXPECT_DOUBLE_EQ(verdict.time, points[k].time);
    EXPECT_LE(points[k].lower_bound_time, points[k].time);
    if (k > 0) {
      EXPECT_LT(points[k - 1].budget_bytes, points[k].budget_bytes);
      EXPECT_GT(points[k - 1].time, points[k].time);
    }
  }
  EXPECT_DOUBLE_EQ(points.back().time, baseline(graph).time);
  options.points = 0;
  EXPECT_THROW(curve(graph, options), InvalidArgument);
}

TEST(Curve, OfAChainIsItsSolution) {
  Chain chain;
  chain.input_bytes = 3;
  for (int s = 0; s < 9; ++s) {
    chain.stages.push_back({1.0 + s % 3, 2, 2 + s % 4, 9 + s % 5, 0, 0});
  }
  const auto points = curve(chain, {1000, {}});
  ChainOptions exact;
  exact.exact = true;
  const ChainSolution solution = solve(chain, exact);
  ASSERT_EQ(points.size(), solution.curve().size());
  for (size_t k = 0; k < points.size(); ++k) {
    EXPECT_EQ(points[k].budget_bytes, solution.curve()[k].bytes);
    EXPECT_TRUE(validate(to_graph(chain), points[k].schedule).valid);
  }
}

TEST(Budget, IsBytesOrAPercentageOfThePlainPeak) {
  EXPECT_EQ(parse_budget("80%", 1000), 800);
  EXPECT_EQ(parse_budget("12.5%", 1000), 125);
  EXPECT_EQ(parse_budget("0", 1000), 0);
  EXPECT_EQ(parse_budget("2KiB", 1000), 2048);
  for (const char* text : {"80%x", "%", "-5%", "1e3%", "nan%", "80 %", "", "8..0%", "."}) {
    try {
      parse_budget(text, 1000);
      ADD_FAILURE() << "accepted " << text;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("'" + std::string(text) + "'"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace encore::plan
