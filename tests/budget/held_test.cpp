// What the user's own code holds, and what Encore's books take, as the report tells it.
#include <encore/encore.h>
#include <gtest/gtest.h>

#include "budget/net.h"

namespace encore::test {
namespace {

/// What a step keeps until its end.
using Kept = std::vector<at::Tensor>;

/// The report of a planned step of which `body` makes the loss.
StepReport planned(Net& net, double part, const std::function<at::Tensor(Kept&)>& body) {
  const auto train = [&] {
    torch::manual_seed(9);
    Kept kept;
    body(kept).backward();
  };
  const int64_t resting = live_tensor_bytes();
  int64_t limit = 0;
  {
    const MemoryScope memory;
    train();
    limit = resting + static_cast<int64_t>(part * static_cast<double>(memory.peak_growth_bytes()));
  }
  net.forget();
  MemoryBudget budget(limit);
  for (int i = 0; i < 3; ++i) {
    const auto step = budget.step();
    train();
    net.forget();
  }
  EXPECT_EQ(budget.report().mode, StepMode::kPlanned) << budget.report().text();
  return budget.report();
}

TEST(Held, AListOfOutputsIsNamedWithItsBytes) {
  Net net(8);
  const StepReport report = planned(net, 0.8, [&](Kept& outputs) {
    at::Tensor x = net.input;
    for (const at::Tensor& weight : net.weights) {
      x = x.matmul(weight).tanh();
      outputs.push_back(x.exp());  // nobody reads it any more
    }
    return x.square().mean();
  });
  ASSERT_FALSE(report.held.empty());
  EXPECT_EQ(report.held.front().name, "aten::exp");
  EXPECT_EQ(report.held.front().bytes, 8 * static_cast<int64_t>(net.input.nbytes()));
  EXPECT_NE(report.text().find("aten::exp"), std::string::npos) << report.text();
  EXPECT_NE(report.text().find("let go of it"), std::string::npos) << report.text();
}

TEST(Held, WhatTheStepWillStillUseIsNotHeldInVain) {
  Net net(8);
  const StepReport report = planned(net, 0.8, [&](Kept&) { return net.loss(); });
  int64_t held_bytes = 0;
  for (const ValueReport& value : report.held) {
    held_bytes += value.bytes;
  }
  EXPECT_LE(held_bytes, 2 * static_cast<int64_t>(net.input.nbytes())) << "the last temporaries of the loss at most";
}

/// A list that lives outside of the loop, as a program's own: what it held of the step before goes in the next one.
TEST(Held, OutputsThatGoInTheNextStepAreNotForetoldTwice) {
  Net net(8);
  Kept outputs;
  const auto train = [&] {
    outputs.clear();
    at::Tensor x = net.input;
    for (const at::Tensor& weight : net.weights) {
      x = x.matmul(weight).tanh();
      outputs.push_back(x.exp());
    }
    x.square().mean().backward();
    net.forget();
  };
  train();
  const int64_t resting = live_tensor_bytes();
  const MemoryScope memory;
  train();
  MemoryBudget budget(resting + memory.peak_growth_bytes() * 9 / 10);
  for (int i = 0; i < 5; ++i) {
    {
      const auto step = budget.step();
      train();
    }
    const StepReport report = budget.report();
    EXPECT_TRUE(i == 0 || report.mode == StepMode::kPlanned) << report.text();
    EXPECT_TRUE(i == 0 || report.predicted_peak_bytes == report.peak_bytes) << report.text();
    EXPECT_LE(report.plain_peak_bytes, resting + memory.peak_growth_bytes()) << report.text();
  }
}

TEST(Held, TheBooksAreCountedAndGrowWithTheStep) {
  Net small(4);
  Net large(16);
  const int64_t few = planned(small, 0.8, [&](Kept&) { return small.loss(); }).book_bytes;
  const int64_t many = planned(large, 0.8, [&](Kept&) { return large.loss(); }).book_bytes;
  EXPECT_GT(few, 1000);
  EXPECT_GT(many, 2 * few);
  EXPECT_LT(many, 64 * 1024 * 4);
}

}  // namespace
}  // namespace encore::test
