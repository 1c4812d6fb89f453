// Never slower than eviction without a look ahead (DTR), and never refused where that succeeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <encore/plan/planner.h>
#include <encore/plan/validate.h>

#include "../../bench/plan/dtr.h"
#include "../../bench/plan/net.h"
#include "../../bench/plan/small_graphs.h"
#include "plan/ladder.h"
#include "plan/online.h"

namespace encore::plan {
namespace {

/// Times as a busy machine measures them.
void jitter_times(Graph* graph, bench::Dice* dice) {
  for (Step& step : graph->steps) {
    step.time *= dice->roll(5, 20) / 10.0 * (dice->roll(0, 9) == 0 ? 4 : 1);
  }
}

/// Bytes behind the steps, of which some are always there, and values that are held for a while.
void hold_and_lay_behind(Graph* graph, bench::Dice* dice) {
  const auto n = static_cast<int32_t>(graph->steps.size());
  const int64_t rest = baseline(*graph).peak_bytes;
  for (int32_t i = 0; i < n; ++i) {
    Step& step = graph->steps[static_cast<size_t>(i)];
    step.background_bytes = rest + dice->roll(0, 9);
    step.held_until = dice->roll(0, 4) == 0 ? std::min(n - 1, i + dice->roll(1, 6)) : -1;
  }
}

/// Every fourth percent of what lies above the bytes that always rest.
std::vector<int64_t> budgets_of(const Graph& graph) {
  const int64_t peak = baseline(graph).peak_bytes;
  int64_t rest = peak;
  for (const Step& step : graph.steps) {
    rest = std::min(rest, step.background_bytes);
  }
  std::vector<int64_t> budgets;
  for (int32_t percent = 10; percent <= 98; percent += 4) {
    budgets.push_back(rest + static_cast<int64_t>(percent / 100.0 * static_cast<double>(peak - rest)));
  }
  return budgets;
}

struct Met {
  int fits = 0;  // Cases in which the peer ends within the budget.
  int gone = 0;  // In which it computes something again.
};

void compare_with_peer(const Graph& graph, const PlanOptions& options, Met* met) {
  const Compact compact(graph);
  Ladder ladder(graph, compact, options);
  const Baseline base = baseline(graph);
  for (const int64_t budget : budgets_of(graph)) {
    const bench::DtrResult peer = bench::dtr(graph, budget, static_cast<int64_t>(40 * graph.steps.size()));
    if (!peer.done || budget >= base.peak_bytes) {
      continue;
    }
    ++met->fits;
    met->gone += peer.time > base.time ? 1 : 0;
    ASSERT_GE(budget, ladder.least_bytes()) << "of " << base.peak_bytes << ": the peer fits";
    const Ladder::Found found = ladder.best_within(budget);
    const Verdict verdict = validate(graph, found.schedule);
    ASSERT_TRUE(verdict.valid) << verdict.problem;
    EXPECT_LE(verdict.peak_bytes, budget);
    EXPECT_LE(verdict.time, peer.time * (1 + 1e-9)) << budget << " of " << base.peak_bytes;
    EXPECT_LE(base.time + ladder.bound(budget), peer.time * (1 + 1e-9)) << budget << " of " << base.peak_bytes;
  }
}

/// The planner's own run by the peer's rules makes the peer's choices.
void expect_same_run(const Graph& graph) {
  constexpr int64_t kMost = 1'000'000'000;
  for (const int64_t budget : budgets_of(graph)) {
    const bench::DtrResult peer = bench::dtr(graph, budget, static_cast<int64_t>(40 * graph.steps.size()));
    if (!peer.done) {
      continue;
    }
    int64_t work = 0;
    const EvictingRun run = run_online(graph, budget, INFINITY, kMost, &work);
    ASSERT_TRUE(run.done) << budget;
    const Verdict verdict = validate(graph, run.schedule);
    ASSERT_TRUE(verdict.valid) << verdict.problem;
    EXPECT_LE(verdict.peak_bytes, budget);
    EXPECT_NEAR(verdict.time / peer.time, 1, 1e-9) << budget;
    EXPECT_NEAR((baseline(graph).time + run.extra_time) / peer.time, 1, 1e-9) << budget;
    // Who asks for less time gets nothing.
    EXPECT_FALSE(run_online(graph, budget, run.extra_time, kMost, &work).done);
  }
}

PlanOptions starts_only() {
  PlanOptions options;
  options.effort = 0;
  options.exact_states = 0;
  return options;
}

TEST(Online, RandomGraphsAreNeverSlower) {
  Met met;
  for (const std::string& family : bench::small_families()) {
    for (uint64_t seed = 1; seed <= 9; ++seed) {
      SCOPED_TRACE(family + std::to_string(seed));
      Graph graph = bench::small_graph(family, 6 + static_cast<int32_t>(2 * seed), seed);
      expect_same_run(graph);
      compare_with_peer(graph, starts_only(), &met);
      bench::Dice dice(seed);
      jitter_times(&graph, &dice);
      hold_and_lay_behind(&graph, &dice);
      expect_same_run(graph);
      compare_with_peer(graph, starts_only(), &met);
    }
  }
  EXPECT_GE(met.fits, 1000);
  EXPECT_GE(met.gone, 800);
}

TEST(Online, NetworksAreNeverSlower) {
  Met met;
  const std::vector<std::pair<std::string, Graph>> graphs = {{"resnet18", bench::resnet18(4, 128)},
                                                             {"resnet50", bench::resnet50(4, 128)},
                                                             {"unet", bench::unet(2)},
                                                             {"segnet", bench::segnet(2)},
                                                             {"gpt", bench::gpt(2, 256, 4, 128, 4, false)},
                                                             {"layered", bench::random_layered(250, 6, 2)}};
  for (auto [name, graph] : graphs) {
    SCOPED_TRACE(name);
    expect_same_run(graph);
    compare_with_peer(graph, starts_only(), &met);
    for (const uint64_t seed : {1, 2}) {
      bench::Dice dice(seed);
      jitter_times(&graph, &dice);
      compare_with_peer(graph, starts_only(), &met);
    }
  }
  EXPECT_GE(met.fits, 250);
  EXPECT_GE(met.gone, 200);
}

}  // namespace
}  // namespace encore::plan
