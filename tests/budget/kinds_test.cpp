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

}  // namespace
}  // namespace encore::test
