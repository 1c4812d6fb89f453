// Values that a plan holds, overwritten in a step that goes another way.
#include <encore/budget.h>

#include "support/oracle.h"

namespace encore::test {
namespace {

TEST(BudgetOverwritten, WhatAPlanHoldsMayBeOverwrittenInAStepThatLeavesIt) {
  constexpr int kSteps = 4;
  const auto train = [](bool budgeted) {
    torch::manual_seed(1);
    const at::Tensor weight = leaf({64, 2000});
    const at::Tensor input = torch::randn({256, 64});
    Tensors gradients;
    MemoryBudget budget(int64_t{1} << 40);
    int64_t peak = 0;
    for (int i = 0; i < kSteps; ++i) {
      weight.mutable_grad() = at::Tensor();
      const MemoryScope memory;
      std::optional<MemoryBudget::Step> step;
      if (budgeted) {
        if (i == 1) {
          budget.set_limit(live_tensor_bytes() + peak * 6 / 10);
        }
        step.emplace(budget.step());
      }
      at::Tensor loss = torch::zeros({});
      {
        const at::Tensor h = input.mm(weight);
        for (int k = 0; k < 8; ++k) {
          loss = loss + (h + k).sin().mean();
        }
        if (i == kSteps - 1) {
          const at::NoGradGuard no_grad;
          h.mul_(2);  // nothing that backward needs: a sum saves neither of its arguments
        }
      }
      loss.backward();
      step.reset();
      peak = std::max(peak, memory.peak_growth_bytes());
      gradients.push_back(weight.grad());
    }
    return gradients;
  };
  const Tensors expected = train(false);
  const Tensors actual = train(true);
  for (size_t i = 0; i < kSteps; ++i) {
    EXPECT_TRUE(same_bits(expected[i], actual[i])) << "step " << i;
  }
}

}  // namespace
}  // namespace encore::test
