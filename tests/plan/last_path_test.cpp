// The bound of memory by last paths: never above the true least budget, and often equal to it.
#include "plan/last_path.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <encore/plan/planner.h>
#include <encore/plan/simulate.h>

#include "../../bench/plan/net.h"
#include "../../bench/plan/small_graphs.h"
#include "plan/bounds.h"
#include "plan/exact.h"

namespace encore::plan {
namespace {

constexpr int64_t kWork = 100'000'000;

int64_t bound_of(const Graph& graph) {
  const Compact compact(graph);
  return least_peak_by_paths(compact, graph, least_peak(compact), INT64_MAX / 4, kWork);
}

// The least bytes that block all paths, by trying all sets of values.
int64_t blocked_by_trying(const Graph& graph, const std::vector<char>& is_source, const std::vector<int32_t>& sinks) {
  const auto n = static_cast<int32_t>(graph.steps.size());
  int64_t best = INT64_MAX;
  for (uint32_t set = 0; set < 1U << n; ++set) {
    int64_t bytes = 0;
    std::vector<char> reached(n, 0);
    bool blocks = true;
    for (int32_t i = 0; i < n; ++i) {
      const auto& inputs = graph.steps[i].inputs;
      const bool there = ((set >> i) & 1) != 0;
      bytes += there ? graph.steps[i].bytes : 0;
      reached[i] =
          is_source[i] != 0 || std::any_of(inputs.begin(), inputs.end(), [&](int32_t k) { return reached[k]; });
      const bool is_sink = std::find(sinks.begin(), sinks.end(), i) != sinks.end();
      blocks = blocks && !(is_sink && (reached[i] != 0 || there));
      reached[i] = reached[i] != 0 && !there ? 1 : 0;
    }
    best = blocks ? std::min(best, bytes) : best;
  }
  return best;
}

Reads reads_of(const Graph& graph) {
  Reads reads;
  reads.in_at = reads.out_at = {0};
  for (size_t i = 0; i < graph.steps.size(); ++i) {
    reads.in.insert(reads.in.end(), graph.steps[i].inputs.begin(), graph.steps[i].inputs.end());
    reads.in_at.push_back(static_cast<int32_t>(reads.in.size()));
    for (size_t user = i; user < graph.steps.size(); ++user) {
      const auto& inputs = graph.steps[user].inputs;
      if (std::find(inputs.begin(), inputs.end(), static_cast<int32_t>(i)) != inputs.end()) {
        reads.out.push_back(static_cast<int32_t>(user));
      }
    }
    reads.out_at.push_back(static_cast<int32_t>(reads.out.size()));
  }
  return reads;
}

TEST(Blocking, SendsAFlowBackThroughValues) {
  // What comes to 4 first, from 0 by 1 and 2, has to come from 3 after all: 5 has nothing else than 1.
  Graph graph;
  for (const std::vector<int32_t>& inputs : std::vector<std::vector<int32_t>>{{}, {0}, {1}, {}, {2, 3}, {1}, {4}}) {
    graph.steps.push_back({"", 1, 1, 0, inputs, {}});
  }
  const Reads reads = reads_of(graph);
  const std::vector<int64_t> bytes(7, 1);
  const std::vector<char> is_source{1, 0, 0, 1, 0, 0, 0};
  EXPECT_EQ(Blocking(reads, bytes, is_source).least({5, 6}, {}, 1000), 2);
}

TEST(Blocking, TakesAsFewBytesAsAnySetOfValues) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    bench::Dice dice(seed);
    constexpr int32_t kSteps = 11;
    Graph graph;
    std::vector<int64_t> bytes;
    for (int32_t i = 0; i < kSteps; ++i) {
      Step step;
      step.bytes = dice.roll(0, 6);
      for (int32_t k = 0; k < i; ++k) {
        if (dice.roll(0, 3) == 0) {
          step.inputs.push_back(k);
        }
      }
      bytes.push_back(step.bytes);
      graph.steps.push_back(step);
    }
    const Reads reads = reads_of(graph);
    std::vector<char> is_source(kSteps, 0);
    for (int32_t i = 0; i < 4; ++i) {
      is_source[i] = static_cast<char>(dice.roll(0, 2) > 0);
    }
    const std::vector<int32_t> sinks{7, 10};
    Blocking blocking(reads, bytes, is_source);
    const int64_t least = blocking.least(sinks, {}, 1000);
    EXPECT_EQ(least, blocked_by_trying(graph, is_source, sinks)) << "seed " << seed;
    // What is cut off may be asked for too, and nothing else.
    std::vector<uint64_t> off(1, 0);
    blocking.cut_off(kSteps, &off);
    for (int32_t i = 0; i < kSteps; ++i) {
      std::vector<int32_t> more = sinks;
      more.push_back(i);
      if (is_source[i] == 0) {
        EXPECT_EQ(((off[0] >> i) & 1) != 0, blocked_by_trying(graph, is_source, more) == least) << seed << ", " << i;
      }
    }
  }
}

TEST(LastPath, IsNeverAboveTheLeastBudgetAndMostlyEqual) {
  int compared = 0;
  int equal = 0;
  int by_one_step = 0;
  const auto compare = [&](const Graph& graph, const std::string& name, bool counts) {
    const Compact compact(graph);
    const ExactAnswer exact = exact_min_budget(compact, 20'000);
    if (!exact.finished) {
      return;
    }
    const int64_t least = simulate(graph, exact.schedule).peak_bytes;
    const int64_t bound = bound_of(graph);
    EXPECT_LE(bound, least) << name;
    EXPECT_GE(bound, least_peak(compact)) << name;
    if (counts) {
      ++compared;
      equal += bound == least ? 1 : 0;
      by_one_step += least_peak(compact) == least ? 1 : 0;
    }
  };
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    for (const std::string& family : bench::small_families()) {
      Graph graph = bench::small_graph(family, 5 + static_cast<int32_t>(seed % 4), seed);
      compare(graph, family + std::to_string(seed), true);
      bench::Dice dice(seed);
      const auto n = static_cast<int32_t>(graph.steps.size());
      for (int32_t i = 0; i < n; ++i) {
        graph.steps[i].background_bytes = dice.roll(0, 9);
        graph.steps[i].bytes = dice.roll(0, 5) == 0 ? 0 : graph.steps[i].bytes;
        graph.steps[i].held_until = dice.roll(0, 4) == 0 ? std::min(n - 1, i + dice.roll(1, 6)) : -1;
      }
      compare(graph, "complicated " + family + std::to_string(seed), false);
    }
    compare(bench::random_layered(12 + static_cast<int32_t>(seed % 7), 4, seed), "layered" + std::to_string(seed),
            true);
  }
  EXPECT_GE(compared, 300);
  EXPECT_GE(equal, compared * 95 / 100);
  EXPECT_LE(by_one_step, compared * 70 / 100);  // Else these graphs would say nothing.
}

TEST(LastPath, CountsAValueAsTheSmallestOfItsForms) {
  int lower = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Graph graph = bench::small_graph("unet", 8, seed);
    const int64_t without = bound_of(graph);
    for (Step& step : graph.steps) {
      step.variants.push_back({"pack", step.bytes / 4, 0.1, 0.1});
    }
    PlanOptions options;
    options.effort = 1;
    const Plan answer = plan(graph, 0, options);
    EXPECT_LE(bound_of(graph), answer.min_feasible_bytes);
    EXPECT_LE(answer.min_bytes_lower_bound, answer.min_feasible_bytes);
    lower += bound_of(graph) < without ? 1 : 0;
  }
  EXPECT_GE(lower, 4);
}

TEST(LastPath, SaysMoreThanTheLargestStepWhereGradientsWait) {
  const std::vector<std::pair<Graph, double>> known{
      {bench::unrolled_gan(8, 64, 64), 2.4}, {bench::tree_lstm(4, 16, 4), 2.5}, {bench::segnet(1), 1.3}};
  for (const auto& [graph, times] : known) {
    const Compact compact(graph);
    const int64_t bound = least_peak_by_paths(compact, graph, least_peak(compact), baseline(graph).peak_bytes, kWork);
    EXPECT_GE(static_cast<double>(bound), times * static_cast<double>(least_peak(compact)));
  }
}

}  // namespace
}  // namespace encore::plan
