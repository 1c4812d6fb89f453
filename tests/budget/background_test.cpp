// Plans that are made while training goes on, as users have them.
#include <thread>

#include <encore/encore.h>
#include <gtest/gtest.h>

#include "budget/net.h"

namespace encore::test {
namespace {

/// One step within the budget; the gradients are those of the plain step, and the limit is kept.
StepReport checked_step(Net& net, MemoryBudget& budget, const std::vector<at::Tensor>& plain) {
  torch::manual_seed(9);
  {
    const auto step = budget.step();
    net.loss().backward();
  }
  EXPECT_TRUE(same(net.gradients(), plain));
  net.forget();
  const StepReport report = budget.report();
  EXPECT_TRUE(report.limit_bytes < 0 || report.peak_bytes <= report.limit_bytes);
  return report;
}

struct Plain {
  std::vector<at::Tensor> gradients;
  int64_t limit_bytes = 0;
};

Plain plain_step(Net& net, double part) {
  torch::manual_seed(9);
  const int64_t resting = live_tensor_bytes();
  const MemoryScope memory;
  net.loss().backward();
  Plain plain{net.gradients(), resting + static_cast<int64_t>(part * static_cast<double>(memory.peak_growth_bytes()))};
  net.forget();
  return plain;
}

/// Steps until the time spent on plans grows: one that was made meanwhile has been taken over.
StepReport step_until_taken_over(Net& net, MemoryBudget& budget, const std::vector<at::Tensor>& plain,
                                 double spent_seconds) {
  StepReport report;
  for (int i = 0; i < 2000; ++i) {
    report = checked_step(net, budget, plain);
    if (report.learning_seconds > spent_seconds && report.planning_seconds == 0) {
      break;
    }
    spent_seconds = std::max(spent_seconds, report.learning_seconds);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return report;
}

TEST(BackgroundPlans, TheSecondStepFollowsASketchAndLaterOnesWhatWasMadeMeanwhile) {
  Net net(40);
  const Plain plain = plain_step(net, 0.5);
  MemoryBudget budget(plain.limit_bytes);
  budget.wait_for_plans(false);
  EXPECT_EQ(checked_step(net, budget, plain.gradients).mode, StepMode::kOnline);
  const StepReport second = checked_step(net, budget, plain.gradients);
  EXPECT_EQ(second.mode, StepMode::kPlanned);
  EXPECT_EQ(second.peak_bytes, second.predicted_peak_bytes);
  EXPECT_GT(second.ops_replayed, 0);
  const StepReport later = step_until_taken_over(net, budget, plain.gradients, second.learning_seconds);
  EXPECT_EQ(later.mode, StepMode::kPlanned);
  EXPECT_EQ(later.peak_bytes, later.predicted_peak_bytes);
}

TEST(BackgroundPlans, WhoWaitsHasTheSearchedPlanInTheSecondStep) {
  Net net(40);
  const Plain plain = plain_step(net, 0.5);
  MemoryBudget waits(plain.limit_bytes);
  waits.wait_for_plans();
  checked_step(net, waits, plain.gradients);
  const StepReport searched = checked_step(net, waits, plain.gradients);
  EXPECT_EQ(searched.mode, StepMode::kPlanned);
  EXPECT_GT(searched.planning_seconds, 0);
}

TEST(BackgroundPlans, ABudgetMayGoWhileItsPlanIsBeingMade) {
  Net net(60);
  const Plain plain = plain_step(net, 0.4);
  for (int i = 0; i < 3; ++i) {
    MemoryBudget budget(plain.limit_bytes);
    budget.wait_for_plans(false);
    checked_step(net, budget, plain.gradients);
    checked_step(net, budget, plain.gradients);
  }
  MemoryBudget budget(plain.limit_bytes);
  budget.wait_for_plans(false);
  checked_step(net, budget, plain.gradients);
  checked_step(net, budget, plain.gradients);
  budget.leave_alone_below(1024);  // forgets all kinds of steps, also the one that is being planned
  EXPECT_EQ(checked_step(net, budget, plain.gradients).mode, StepMode::kOnline);
  budget.set_limit(plain.limit_bytes * 2);
  checked_step(net, budget, plain.gradients);
}

TEST(BackgroundPlans, TheLeastBudgetIsFoundMeanwhile) {
  Net net(12);
  const Plain plain = plain_step(net, 0.5);
  MemoryBudget budget = MemoryBudget::least();
  budget.wait_for_plans(false);
  StepReport report;
  for (int i = 0; i < 2000 && report.mode != StepMode::kPlanned; ++i) {
    report = checked_step(net, budget, plain.gradients);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(report.mode, StepMode::kPlanned);
  EXPECT_LT(budget.limit_bytes(), plain.limit_bytes);
}

}  // namespace
}  // namespace encore::test
