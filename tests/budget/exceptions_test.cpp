// Steps through which exceptions pass: what is thrown and caught inside must not keep them from being followed.
#include "budget/net.h"
#include "support/custom_ops.h"
#include "support/oracle.h"

namespace encore::test {
namespace {

/// LibTorch keeps what waits in the queue of a backward that threw.
TEST(RefusedBackward, LeavesNoMemoryBehind) {
  torch::manual_seed(3);
  std::vector<at::Tensor> weights;
  for (int i = 0; i < 9; ++i) {
    weights.push_back(torch::randn({64, 64}).mul_(.1).requires_grad_());
  }
  const at::Tensor input = torch::randn({1024, 64});
  const auto train = [&] {
    at::Tensor h = input;
    for (int i = 0; i < 8; ++i) {
      h = h.mm(weights[static_cast<size_t>(i)]).tanh();
    }
    const at::Tensor wide = h.repeat({1, 6});
    (h.mm(weights[8]).pow(2).mean() + (wide.sin() * wide).mean()).backward();
  };
  const int64_t resting = live_tensor_bytes();
  int refused = 0;
  for (int64_t bytes = 2'000'000; bytes < 8'000'000; bytes += 250'000) {
    MemoryBudget budget(resting + bytes);
    try {
      const auto step = budget.step();
      train();
    } catch (const BudgetError& error) {
      refused += error.figures().op.find("Backward") != std::string::npos ? 1 : 0;
    }
    for (at::Tensor& weight : weights) {
      weight.mutable_grad() = at::Tensor();
    }
    EXPECT_EQ(live_tensor_bytes(), resting) << bytes;
  }
  EXPECT_GT(refused, 0);
}

/// A net whose every layer runs an operator of the user's, trained in two halves of a step.
struct Stumbling : ::testing::Test {
  at::Tensor loss() const {
    at::Tensor x = net.input;
    for (const at::Tensor& weight : net.weights) {
      x = x.matmul(weight).tanh() * custom_ops::call("stumbles", x.detach());
    }
    return x.square().mean();
  }
  /// `between` is called when the first half has its graph.
  template <class Between>
  void train(const Between& between) {
    const at::Tensor first = loss();
    between(first);
    loss().backward();
  }
  /// Trains plainly; finds the budget of half of what that takes.
  void SetUp() override {
    custom_ops::reset();
    const auto plainly = [&] { train([](const at::Tensor& first) { first.backward(); }); };
    plainly();
    net.forget();
    const MemoryScope memory;
    plainly();
    expected = net.gradients();
    net.forget();
    budget.set_limit(live_tensor_bytes() + memory.peak_growth_bytes() * 6 / 10);
  }
  template <class Between>
  StepReport step(const Between& between) {
    {
      const auto step = budget.step();
      train(between);
    }
    EXPECT_TRUE(same(net.gradients(), expected));
    net.forget();
    return budget.report();
  }

  Net net{8};
  std::vector<at::Tensor> expected;
  MemoryBudget budget{int64_t{1} << 40};
};

TEST_F(Stumbling, AheadOfTimeAStepLeavesItsPlanAndIsStillFollowed) {
  const auto backward = [](const at::Tensor& loss) { loss.backward(); };
  step(backward);
  const StepReport planned = step(backward);
  ASSERT_EQ(planned.mode, StepMode::kPlanned) << planned.text();
  ASSERT_GT(planned.ops_replayed, 0);
  const StepReport left = step([](const at::Tensor& loss) {
    custom_ops::fail_from_now_on();
    loss.backward();
  });
  EXPECT_EQ(left.mode, StepMode::kOnline);
  EXPECT_NE(left.note.find("left the plan"), std::string::npos) << left.note;
  EXPECT_EQ(left.signature, planned.signature) << "every node of the second backward was seen";
  EXPECT_EQ(step(backward).mode, StepMode::kPlanned);
}

TEST_F(Stumbling, ThroughABackwardNodeAStepIsStillFollowed) {
  const auto throws_once = [](const at::Tensor& loss) {
    bool has_thrown = false;
    const unsigned hook = loss.register_hook([&](const at::Tensor& gradient) {
      if (!std::exchange(has_thrown, true)) {
        throw custom_ops::Stumble();
      }
      return gradient;
    });
    EXPECT_THROW(loss.backward({}, /*retain_graph=*/true), custom_ops::Stumble);
    loss.remove_hook(hook);
    loss.backward();
  };
  const StepReport first = step(throws_once);
  const StepReport second = step(throws_once);
  EXPECT_EQ(second.mode, StepMode::kPlanned) << second.text();
  EXPECT_EQ(second.signature, first.signature);
}

}  // namespace
}  // namespace encore::test
