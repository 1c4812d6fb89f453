// Steps that come again and again and need nothing: only whether they still do is looked at.
#include "budget/net.h"

namespace encore::test {
namespace {

/// Plain gradients of the net for so many rows, and the bytes that it takes above what rests.
struct PlainStep {
  PlainStep(Net& net, int64_t rows) {
    const MemoryScope memory;
    torch::manual_seed(9);
    net.loss(net.input.narrow(0, 0, rows)).backward();
    growth = memory.peak_growth_bytes();
    gradients = net.gradients();
    net.forget();
  }
  std::vector<at::Tensor> gradients;
  int64_t growth = 0;
};

StepReport expect_plain_bits(Net& net, MemoryBudget& budget, int64_t rows, const PlainStep& plain) {
  const MemoryScope memory;
  torch::manual_seed(9);
  {
    const auto step = budget.step();
    net.loss(net.input.narrow(0, 0, rows)).backward();
  }
  EXPECT_LE(memory.peak_bytes(), budget.limit_bytes());
  EXPECT_TRUE(same(net.gradients(), plain.gradients));
  net.forget();
  return budget.report();
}

TEST(Routine, AStepThatCameOftenAndNeedsNothingIsOnlyLookedAt) {
  Net net(4);
  const PlainStep plain(net, 256);
  MemoryBudget budget(live_tensor_bytes() + 2 * plain.growth);
  uint64_t signature = 0;
  int routine = 0;
  for (int i = 0; i < 40; ++i) {
    const StepReport report = expect_plain_bits(net, budget, 256, plain);
    signature = i == 0 ? report.signature : signature;
    EXPECT_EQ(report.signature, signature);
    EXPECT_EQ(report.mode, i == 0 ? StepMode::kOnline : StepMode::kPlanned) << i;
    if (i > 0) {
      EXPECT_EQ(report.predicted_peak_bytes, report.peak_bytes) << i;
    }
    EXPECT_FALSE(report.routine && i < 5) << "times are not settled";
    EXPECT_FALSE(report.routine && (i + 1) % 16 == 0) << "now and then it is measured";
    EXPECT_EQ(report.kinds_seen, 1);
    routine += report.routine ? 1 : 0;
  }
  EXPECT_EQ(routine, 40 - 5 - 2);
  EXPECT_NE(budget.run_json("net").find("backward"), std::string::npos)
      << "the last step that was written down is shown";
}

TEST(Routine, AnotherStepInItsPlaceIsSeen) {
  Net net(4);
  const PlainStep plain(net, 256);
  const PlainStep other(net, 200);
  MemoryBudget budget(live_tensor_bytes() + 2 * plain.growth);
  for (int i = 0; i < 8; ++i) {
    expect_plain_bits(net, budget, 256, plain);
  }
  ASSERT_TRUE(budget.report().routine);
  StepReport report = expect_plain_bits(net, budget, 200, other);
  EXPECT_FALSE(report.routine);
  EXPECT_EQ(report.mode, StepMode::kOnline);
  EXPECT_NE(report.note.find("left the plan at"), std::string::npos) << report.note;
  EXPECT_EQ(report.kinds_seen, 2);
  expect_plain_bits(net, budget, 200, other);
  expect_plain_bits(net, budget, 200, other);
  report = expect_plain_bits(net, budget, 200, other);
  EXPECT_EQ(report.mode, StepMode::kPlanned) << "it is learnt when it comes back";
  EXPECT_FALSE(report.routine);
}

TEST(Routine, AnotherBackwardOfTheSameForwardIsSeen) {
  const at::Tensor inner = torch::randn({64, 64}).requires_grad_();
  const at::Tensor outer = torch::randn({64, 64}).requires_grad_();
  const at::Tensor input = torch::randn({64, 64});
  MemoryBudget budget(live_tensor_bytes() + (int64_t{8} << 20));
  const auto gradient_of = [&](const at::Tensor& weight) {
    const at::Tensor loss = input.matmul(inner).tanh().matmul(outer).sum();
    return torch::autograd::grad({loss}, {weight}).front();
  };
  const at::Tensor plain = gradient_of(outer);
  for (int i = 0; i < 8; ++i) {
    const auto step = budget.step();
    gradient_of(inner);
  }
  ASSERT_TRUE(budget.report().routine);
  at::Tensor gradient;
  {
    const auto step = budget.step();
    gradient = gradient_of(outer);
  }
  EXPECT_TRUE(same_bits(gradient, plain));
  EXPECT_FALSE(budget.report().routine);
  EXPECT_NE(budget.report().note.find("its backward"), std::string::npos) << budget.report().note;
}

/// The last batch of an epoch would always come in the place of a routine one, and never be learnt.
TEST(Routine, AStepThatNeedsAPlanIsNotHiddenForEver) {
  Net net(4);
  const PlainStep small(net, 64);
  const PlainStep large(net, 256);
  MemoryBudget budget(live_tensor_bytes() + large.growth * 7 / 10);
  int planned = 0;
  for (int epoch = 0; epoch < 6; ++epoch) {
    for (int i = 0; i < 12; ++i) {
      expect_plain_bits(net, budget, 64, small);
    }
    EXPECT_TRUE(epoch > 0 || budget.report().routine);
    planned += expect_plain_bits(net, budget, 256, large).mode == StepMode::kPlanned ? 1 : 0;
  }
  EXPECT_GE(planned, 3);
}

TEST(Routine, ARefusedOneLeavesNoTrace) {
  Net net(4);
  const PlainStep plain(net, 256);
  MemoryBudget budget(live_tensor_bytes() + plain.growth + (int64_t{1} << 20));
  for (int i = 0; i < 8; ++i) {
    expect_plain_bits(net, budget, 256, plain);
  }
  ASSERT_TRUE(budget.report().routine);
  torch::manual_seed(9);
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  const int64_t resting = live_tensor_bytes();
  try {
    const auto step = budget.step();
    net.loss().backward();
    const at::Tensor too_large = torch::ones({64 << 20});
    FAIL() << "256 MiB were allocated";
  } catch (const BudgetError& error) {
    EXPECT_GT(error.figures().least_bytes, budget.limit_bytes());
  }
  EXPECT_TRUE(budget.report().refused);
  EXPECT_FALSE(budget.report().routine);
  EXPECT_EQ(live_tensor_bytes(), resting) << "gradients are gone";
  EXPECT_TRUE(same_bits(at::detail::getDefaultCPUGenerator().get_state(), before));
  expect_plain_bits(net, budget, 256, plain);
}

/// The step may be known to go its way before an op of it that asks for what was given up.
TEST(Routine, OneThatIsPressedByAnotherThreadIsNoMore) {
  Net net(4);
  const PlainStep plain(net, 256);
  MemoryBudget budget(live_tensor_bytes() + plain.growth + 4096);
  for (int i = 0; i < 8; ++i) {
    expect_plain_bits(net, budget, 256, plain);
  }
  ASSERT_TRUE(budget.report().routine);
  at::Tensor other;
  torch::manual_seed(9);
  {
    const auto step = budget.step();
    const at::Tensor loss = net.loss();
    std::thread([&] { other = torch::ones({64, 64}, torch::kDouble); }).join();  // takes the room of a value
    loss.backward();
  }
  EXPECT_TRUE(same(net.gradients(), plain.gradients));
  net.forget();
  EXPECT_GT(budget.report().evictions, 0);
  other = at::Tensor();
  EXPECT_FALSE(expect_plain_bits(net, budget, 256, plain).routine) << "the last one did not go smoothly";
}

}  // namespace
}  // namespace encore::test
