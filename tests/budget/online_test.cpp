// Steps without a plan: what is given up, what is held on the way, and what it costs.
#include "budget/net.h"
#include "support/custom_ops.h"

namespace encore::test {
namespace {

/// Each turn of a loop takes a part of one large value, as LibTorch's LSTM does with its inputs' gates. Autograd does
/// not save it, so it is gone when backward begins.
at::Tensor loop_over_parts(const at::Tensor& input, const at::Tensor& weight, int64_t turns) {
  const at::Tensor parts = custom_ops::call("counts", input);
  const int64_t rows = input.size(0) / turns;
  at::Tensor sum = torch::zeros({}, input.options());
  for (int64_t i = 0; i < turns; ++i) {
    sum = sum + (parts.narrow(0, i * rows, rows) + weight).tanh().sum();
  }
  return sum;
}

TEST(Online, WhatManyOpsReadIsNotMadeAnewForEachOfThem) {
  constexpr int64_t kTurns = 32;
  torch::manual_seed(1);
  const at::Tensor input = torch::randn({64 * kTurns, 64}, torch::kDouble);
  at::Tensor weight = torch::randn({64, 64}, torch::kDouble).requires_grad_();
  int64_t growth = 0;
  {
    const MemoryScope memory;
    loop_over_parts(input, weight, kTurns).backward();
    growth = memory.peak_growth_bytes();
  }
  const at::Tensor plain = weight.grad().clone();
  weight.mutable_grad() = at::Tensor();
  MemoryBudget budget(live_tensor_bytes() + growth * 8 / 10);
  custom_ops::reset();
  {
    const auto step = budget.step();
    loop_over_parts(input, weight, kTurns).backward();
  }
  EXPECT_TRUE(same_bits(weight.grad(), plain));
  EXPECT_GT(budget.report().evictions, 8);
  EXPECT_EQ(custom_ops::runs(), 2) << "in forward, and once for all that was given up";
}

/// Autograd has the bytes of what it saved, whoever wrote there meanwhile; a factory would leave others.
TEST(Online, WhatWasWrittenThroughAPointerAfterItWasSavedIsNotGivenUp) {
  at::Tensor leaf = torch::linspace(0, 1, 64 * 64, torch::kDouble).view({64, 64}).requires_grad_();
  const auto body = [&] {
    at::Tensor x = leaf;
    for (int i = 0; i < 8; ++i) {
      at::Tensor mask = torch::zeros({64, 64}, torch::kDouble);
      x = x + (x * mask + 1).sin();
      mask.data_ptr<double>()[i] = 3;
    }
    x.sum().backward();
  };
  int64_t growth = 0;
  {
    const MemoryScope memory;
    body();
    growth = memory.peak_growth_bytes();
  }
  const at::Tensor plain = leaf.grad().clone();
  leaf.mutable_grad() = at::Tensor();
  MemoryBudget budget(live_tensor_bytes() + growth * 8 / 10);
  {
    const auto step = budget.step();
    body();
  }
  EXPECT_TRUE(same_bits(leaf.grad(), plain));
  EXPECT_GT(budget.report().evictions, 0);
}

TEST(Online, ARefusalListsNothingWhereNothingIsHeld) {
  MemoryBudget budget(live_tensor_bytes() + 1);
  try {
    const auto step = budget.step();
    torch::ones({4});
    FAIL() << "16 bytes";
  } catch (const BudgetError& error) {
    EXPECT_EQ(std::string(error.what()).find("your own code holds"), std::string::npos) << error.what();
  }
}

/// The op that was refused is named with bytes that get past it, and what the user's own code holds is listed.
TEST(Online, ARefusalNamesItsOpAndWhatTheUserHolds) {
  constexpr int64_t kEach = 64 * 64 * 8;
  const at::Tensor input = torch::ones({64, 64}, torch::kDouble).requires_grad_();
  const auto body = [&] {
    std::vector<at::Tensor> all = {input.sin()};
    for (int i = 0; i < 6; ++i) {
      all.push_back(all.back().exp());
    }
    return all.back().sum().item<double>();
  };
  MemoryBudget budget(live_tensor_bytes() + 4 * kEach + 1);
  int64_t needed = 0;
  for (int64_t i = 0; i < 3; ++i) {
    try {
      const auto step = budget.step();
      body();
      FAIL() << "seven are held";
    } catch (const BudgetError& error) {
      EXPECT_EQ(error.figures().op, "aten::exp");
      EXPECT_EQ(error.figures().needed_bytes, live_tensor_bytes() + (5 + i) * kEach) << "one more than before";
      EXPECT_GT(error.figures().needed_bytes, needed);
      const std::string held = "your own code holds " + std::to_string((4 + i) * 32) + ".0 KiB of it (" +
                               std::to_string((3 + i) * 32) + ".0 KiB made by aten::exp, 32.0 KiB made by aten::sin)";
      EXPECT_NE(std::string(error.what()).find(held), std::string::npos) << error.what();
      needed = error.figures().needed_bytes;
      budget.set_limit(needed);
    }
  }
}

}  // namespace
}  // namespace encore::test
