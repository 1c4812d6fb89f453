// Steps without a plan: what is given up, what is held on the way, and what it costs.
#include "budget/net.h"

namespace encore::test {
namespace {

/// A product of which each step of a loop takes a part, as LibTorch's LSTM computes its inputs' gates. Autograd does
/// not save it, so it is gone when backward begins.
at::Tensor loop_over_parts(const at::Tensor& input, const at::Tensor& weight, int64_t steps) {
  const at::Tensor parts = input.matmul(weight);
  at::Tensor state = torch::zeros({input.size(0), weight.size(1) / steps}, input.options());
  for (int64_t i = 0; i < steps; ++i) {
    state = (parts.narrow(1, i * state.size(1), state.size(1)) + state).tanh();
  }
  return state.square().sum();
}

TEST(Online, WhatManyOpsReadIsNotMadeAnewForEachOfThem) {
  constexpr int64_t kLoop = 32;
  torch::manual_seed(1);
  const at::Tensor input = torch::randn({64, 64}, torch::kDouble);
  at::Tensor weight = torch::randn({64, 64 * kLoop}, torch::kDouble).requires_grad_();
  int64_t growth = 0;
  {
    const MemoryScope memory;
    loop_over_parts(input, weight, kLoop).backward();
    growth = memory.peak_growth_bytes();
  }
  const at::Tensor plain = weight.grad().clone();
  weight.mutable_grad() = at::Tensor();
  MemoryBudget budget(live_tensor_bytes() + growth * 8 / 10);
  {
    const auto step = budget.step();
    loop_over_parts(input, weight, kLoop).backward();
  }
  EXPECT_TRUE(weight.grad().equal(plain));
  const StepReport report = budget.report();
  EXPECT_GT(report.evictions, 0);
  std::cout << report.text();
  // A part, a sum and its tanh for each that was given up; the product once.
  EXPECT_LE(report.ops_replayed, 3 * report.evictions + 3);
}

}  // namespace
}  // namespace encore::test
