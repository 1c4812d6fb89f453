// Gradients that zero_grad() lets go, as it does from LibTorch 2.0 on.
#include <optional>

#include "budget/net.h"

namespace encore::test {
namespace {

/// What zero_grad() does from LibTorch 2.0 on.
void let_gradients_go(torch::optim::Optimizer& optimizer) {
  for (torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    for (at::Tensor& parameter : group.params()) {
      if (parameter.grad().defined()) {
        parameter.mutable_grad().detach_();
        parameter.mutable_grad() = at::Tensor();
      }
    }
  }
}

TEST(ZeroGrad, AStepThatLetsGradientsGoIsTheSameWhetherThereWereAny) {
  torch::nn::Sequential model(torch::nn::Linear(100, 100), torch::nn::Linear(100, 100));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  const at::Tensor input = torch::ones({200, 100});
  MemoryBudget budget("1GiB");
  std::vector<uint64_t> kinds;
  for (int i = 0; i < 3; ++i) {
    const auto step = budget.step();
    let_gradients_go(optimizer);
    model->forward(input).square().mean().backward();
    optimizer.step();
    kinds.push_back(budget.report().signature);
  }
  kinds.push_back(budget.report().signature);
  EXPECT_EQ(kinds[1], kinds[2]) << "the first and the second step";
  EXPECT_EQ(kinds[2], kinds[3]);
}

TEST(ZeroGrad, TemporariesOfAnOptimizerAreNotTakenForItsState) {
  const at::Tensor input = torch::ones({4, 300});
  int64_t plain_peak = 0;
  for (const bool budgeted : {false, true}) {
    torch::manual_seed(1);
    torch::nn::Sequential model(torch::nn::Linear(300, 300), torch::nn::Linear(300, 300), torch::nn::Linear(300, 300));
    torch::optim::Adam optimizer(model->parameters());
    std::optional<MemoryBudget> budget;
    for (int i = 0; i < 2; ++i) {
      if (budgeted && i == 1) {
        budget.emplace(plain_peak - 1);
      }
      const MemoryScope memory;
      try {
        const auto step = budget ? std::optional(budget->step()) : std::nullopt;
        let_gradients_go(optimizer);
        model->forward(input).square().mean().backward();
        optimizer.step();
      } catch (const BudgetError& error) {
        EXPECT_EQ(error.figures().least_bytes, plain_peak) << error.what();
      }
      plain_peak = budgeted ? plain_peak : memory.peak_bytes();
    }
    EXPECT_EQ(budget && budget->report().refused, budgeted);
  }
}

}  // namespace
}  // namespace encore::test
