// Many kinds of steps: what is learnt, what is planned, and what is not refused.
#include "budget/net.h"

namespace encore::test {
namespace {

/// One step of the net on so many rows.
StepReport step_of(Net& net, MemoryBudget& budget, int64_t rows) {
  torch::manual_seed(9);
  {
    const auto step = budget.step();
    net.loss(net.input.narrow(0, 0, rows)).backward();
  }
  net.forget();
  return budget.report();
}

int64_t plain_growth(Net& net, int64_t rows) {
  const MemoryScope memory;
  net.loss(net.input.narrow(0, 0, rows)).backward();
  const int64_t growth = memory.peak_growth_bytes();
  net.forget();
  return growth;
}

TEST(Kinds, StepsThatNeverComeBackAreNotLearnt) {
  Net net(4);
  MemoryBudget budget(live_tensor_bytes() + plain_growth(net, 256) * 8 / 10);
  StepReport report;
  for (int64_t i = 0; i < 30; ++i) {
    report = step_of(net, budget, 200 + i);
    EXPECT_EQ(report.mode, StepMode::kOnline);
    EXPECT_EQ(report.kinds_seen, i + 1);
    EXPECT_LE(report.kinds_known, 2) << "the first, and one more in case that was without the optimizer's state";
    EXPECT_LE(report.planning_seconds, i < 3 ? 1e9 : 0) << "step " << i;
  }
  EXPECT_NE(report.text().find("30 of steps seen, 2 known"), std::string::npos) << report.text();
}

TEST(Kinds, TheSecondStepOfASteadyTrainingIsPlanned) {
  Net net(4);
  MemoryBudget budget(live_tensor_bytes() + plain_growth(net, 256) * 8 / 10);
  EXPECT_EQ(step_of(net, budget, 256).mode, StepMode::kOnline);
  EXPECT_EQ(step_of(net, budget, 256).mode, StepMode::kPlanned);
  EXPECT_EQ(step_of(net, budget, 250).mode, StepMode::kOnline);
  EXPECT_EQ(step_of(net, budget, 250).mode, StepMode::kPlanned);
}

TEST(Kinds, AStepOfAKindThatIsNotLearntCostsTheOthersNoPlan) {
  Net net(4);
  MemoryBudget budget(live_tensor_bytes() + plain_growth(net, 256) * 8 / 10);
  for (const int64_t rows : {256, 256, 250, 250}) {
    step_of(net, budget, rows);
  }
  EXPECT_EQ(step_of(net, budget, 240).kinds_known, 2) << "seen once";
  EXPECT_EQ(step_of(net, budget, 256).mode, StepMode::kPlanned) << "the last one has no plan, this one has";
  EXPECT_EQ(step_of(net, budget, 250).mode, StepMode::kPlanned);
}

/// What a step will be is not known before it runs: that the last one would not fit is no ground for a refusal.
TEST(Kinds, ASmallerStepIsNotRefusedForWhatTheLastOneNeeded) {
  Net net(4);
  MemoryBudget budget(int64_t{1} << 40);
  for (int i = 0; i < 3; ++i) {
    step_of(net, budget, 256);
  }
  budget.set_limit(live_tensor_bytes() + plain_growth(net, 32));
  EXPECT_EQ(step_of(net, budget, 32).refused, false);
  try {
    step_of(net, budget, 256);
    FAIL() << "eight times as large";
  } catch (const BudgetError&) {
    net.forget();
  }
  EXPECT_EQ(step_of(net, budget, 32).refused, false);
}

/// Plans for both limits are there after a while: then no step waits for one, and none is made.
TEST(Kinds, ALimitThatGoesToAndFroIsNotPlannedEachTime) {
  Net net(4);
  const int64_t growth = plain_growth(net, 256);
  MemoryBudget budget(live_tensor_bytes() + growth * 8 / 10);
  for (int i = 0; i < 24; ++i) {
    budget.set_limit(live_tensor_bytes() + growth * (i % 2 == 0 ? 8 : 7) / 10);
    const StepReport report = step_of(net, budget, 256);
    EXPECT_TRUE(i < 12 || report.planning_seconds == 0) << "step " << i << " waited for a plan";
    EXPECT_TRUE(i < 12 || report.mode == StepMode::kPlanned) << report.text();
    EXPECT_LE(report.peak_bytes, budget.limit_bytes());
  }
}

/// The limit and the report of the last of a few steps.
std::pair<int64_t, StepReport> settled(MemoryBudget budget) {
  Net net(4);
  StepReport report;
  for (int i = 0; i < 6; ++i) {
    report = step_of(net, budget, 256);
    EXPECT_FALSE(report.refused) << report.text();
    EXPECT_EQ(report.mode, i == 0 ? StepMode::kLearning : StepMode::kPlanned) << report.text();
  }
  EXPECT_LE(report.peak_bytes, budget.limit_bytes());
  return {budget.limit_bytes(), report};
}

TEST(Kinds, TimeIsStatedInsteadOfBytes) {
  const auto [least_bytes, slowest] = settled(MemoryBudget::least());
  const auto [fast_bytes, fast] = settled(MemoryBudget::slowdown(1));
  const auto [slow_bytes, slow] = settled(MemoryBudget::slowdown(1e9));
  EXPECT_GT(slowest.ops_replayed, 0);
  EXPECT_LT(least_bytes, fast_bytes);
  EXPECT_NEAR(static_cast<double>(least_bytes), static_cast<double>(slow_bytes), 0.05 * static_cast<double>(slow_bytes))
      << "however slow, it is the least; what the search finds follows from the times that were measured";
  EXPECT_LE(fast_bytes, fast.plain_peak_bytes);
  EXPECT_LT(slow_bytes, slow.plain_peak_bytes);
  EXPECT_THROW(MemoryBudget::slowdown(0.5), InvalidArgument);
}

}  // namespace
}  // namespace encore::test
