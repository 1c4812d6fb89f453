// What can't be right is refused, and the next step works.
#include <thread>

#include "support/oracle.h"
#include "support/torch_pch.h"

namespace encore::test {
namespace {

at::Tensor train(const at::Tensor& weight) {
  at::Tensor x = weight;
  for (int i = 0; i < 8; ++i) {
    x = x.sin().exp().mul(0.3);
  }
  const at::Tensor loss = x.sum();
  loss.backward();
  return loss.detach();
}

at::Tensor make_weight() {
  return torch::linspace(0, 1, 4096).requires_grad_();
}

TEST(BudgetInput, TextsThatAreNoBytesAreRefused) {
  for (const char* text : {"12 parrots", "", "-5MiB", "0", "0MiB", "lots", "1e99GB", "80%x"}) {
    EXPECT_THROW(MemoryBudget{text}, InvalidArgument) << text;
  }
  EXPECT_THROW(MemoryBudget(int64_t{0}), InvalidArgument);
  EXPECT_THROW(MemoryBudget(int64_t{-1}), InvalidArgument);
  MemoryBudget budget("1GiB");
  EXPECT_THROW(budget.set_limit("12 parrots"), InvalidArgument);
  EXPECT_EQ(budget.limit_bytes(), int64_t{1} << 30);
}

TEST(BudgetInput, FractionsAreAboveZeroAndAtMostOne) {
  for (const double part : {0.0, -0.5, 1.01, 1e9, std::nan("")}) {
    EXPECT_THROW(MemoryBudget::fraction(part), InvalidArgument) << part;
  }
  EXPECT_NO_THROW(MemoryBudget::fraction(1.0));
}

TEST(BudgetInput, SmallValuesAreLeftAloneOrNot) {
  const at::Tensor weight = torch::linspace(0, 1, 32).requires_grad_();  // 128 bytes
  MemoryBudget budget("1GiB");
  EXPECT_THROW(budget.leave_alone_below(0), InvalidArgument);
  const auto values_known = [&] {
    for (int i = 0; i < 2; ++i) {
      const auto step = budget.step();
      train(weight);
    }
    return budget.report().values.size();
  };
  EXPECT_EQ(values_known(), 0U);
  budget.leave_alone_below(128);
  EXPECT_GE(values_known(), 24U);
  budget.leave_alone_below(129);
  EXPECT_EQ(values_known(), 0U);
  {
    const auto step = budget.step();
    budget.leave_alone_below(1);  // for the next one
    train(weight);
  }
  EXPECT_EQ(budget.report().values.size(), 0U);
  EXPECT_GE(values_known(), 24U);
}

TEST(BudgetInput, AFractionIsLearntAnewWithOtherValues) {
  const at::Tensor weight = make_weight();
  MemoryBudget budget = MemoryBudget::fraction(0.9);
  for (int i = 0; i < 7; ++i) {
    budget.leave_alone_below(512 + std::min(i, 5));
    const auto step = budget.step();
    train(weight);
  }
  EXPECT_GT(budget.limit_bytes(), 0);
}

TEST(BudgetInput, ALimitBelowWhatRestsNamesIt) {
  live_tensor_bytes();  // the first call begins the counting
  const at::Tensor weight = make_weight();
  MemoryBudget budget(live_tensor_bytes() - 1);
  try {
    const auto step = budget.step();
    ADD_FAILURE() << "began";
  } catch (const BudgetError& error) {
    EXPECT_EQ(error.figures().needed_bytes, live_tensor_bytes());
    EXPECT_NE(std::string(error.what()).find("rest"), std::string::npos);
    EXPECT_TRUE(budget.report().refused);
    EXPECT_EQ(budget.report().note, error.what());
    EXPECT_NE(budget.run_json("refused").find("\"refused\""), std::string::npos);
  }
  budget.set_limit("1GiB");
  {
    const auto step = budget.step();
    train(weight);
  }
  EXPECT_EQ(budget.report().step, 1);
  EXPECT_FALSE(budget.report().refused);
}

TEST(BudgetInput, StepsDoNotNest) {
  const at::Tensor weight = make_weight();
  MemoryBudget budget("1GiB");
  MemoryBudget other("1GiB");
  {
    const auto step = budget.step();
    EXPECT_THROW((void)budget.step(), ScopeError);
    EXPECT_THROW((void)other.step(), ScopeError);
    train(weight);
  }
  const auto step = other.step();
  train(weight);
}

TEST(BudgetInput, OneStepInTheProcessAtATime) {
  MemoryBudget budget("1GiB");
  const auto step = budget.step();
  std::string message;
  std::thread([&] {
    try {
      (void)budget.step();
    } catch (const ScopeError& error) {
      message = error.what();
    }
  }).join();
  EXPECT_NE(message.find("another step"), std::string::npos) << message;
}

TEST(BudgetInput, StepsBeginOutsideOfScopes) {
  MemoryBudget budget("1GiB");
  {
    const Scope scope(keep_all());
    EXPECT_THROW((void)budget.step(), ScopeError);
  }
  const auto step = budget.step();
}

TEST(BudgetInput, AStepWithoutBackwardIsAStep) {
  const at::Tensor weight = make_weight();
  MemoryBudget budget("1GiB");
  {
    const auto step = budget.step();
    weight.sin().sum();
  }
  EXPECT_FALSE(budget.report().failed);
  { const auto step = budget.step(); }
  const auto step = budget.step();
  train(weight);
}

TEST(BudgetInput, AnExceptionLeavesEverythingAsItWas) {
  const at::Tensor weight = make_weight();
  MemoryBudget budget("1GiB");
  const int64_t before = live_tensor_bytes();
  EXPECT_THROW(
      {
        const auto step = budget.step();
        const at::Tensor x = weight.sin().exp();
        throw std::runtime_error("user's own");
      },
      std::runtime_error);
  EXPECT_TRUE(budget.report().failed);
  EXPECT_FALSE(budget.report().refused) << "it was the user's own";
  EXPECT_EQ(live_tensor_bytes(), before);
  const auto step = budget.step();
  train(weight);
}

TEST(BudgetInput, AStepThatEndsOnAnotherThreadLeavesNothingSwitchedOn) {
  at::Tensor weight = make_weight();
  train(weight);
  const at::Tensor plain = weight.grad().clone();
  MemoryBudget budget("1GiB");
  {
    auto step = std::make_unique<MemoryBudget::Step>(budget.step());
    std::thread([&] { step.reset(); }).join();
  }
  EXPECT_NE(budget.report().note.find("another thread"), std::string::npos) << budget.report().note;
  weight.mutable_grad() = at::Tensor();
  train(weight);  // nobody listens to its nodes any more
  weight.mutable_grad() = at::Tensor();
  {
    const auto step = budget.step();
    train(weight);
  }
  EXPECT_TRUE(same_bits(weight.grad(), plain));
  EXPECT_GT(budget.report().ops_recorded, 0);
}

TEST(BudgetInput, ARefusedStepSucceedsWithALargerBudget) {
  at::Tensor weight = make_weight();
  const at::Tensor plain = train(weight);
  const at::Tensor gradient = weight.grad().clone();
  weight.mutable_grad() = at::Tensor();
  const int64_t before = live_tensor_bytes();
  MemoryBudget budget(before + 40000);
  try {
    const auto step = budget.step();
    train(weight);
    ADD_FAILURE() << "fits";
  } catch (const BudgetError& error) {
    EXPECT_GT(error.figures().needed_bytes, before + 40000);
    EXPECT_EQ(error.figures().limit_bytes, before + 40000);
    EXPECT_NE(std::string(error.what()).find("aten::"), std::string::npos) << error.what();
    EXPECT_TRUE(budget.report().refused);
    EXPECT_EQ(budget.report().note, error.what());
    EXPECT_NE(budget.run_json("refused").find("\"refused\""), std::string::npos);
  }
  weight.mutable_grad() = at::Tensor();
  EXPECT_EQ(live_tensor_bytes(), before);
  budget.set_limit(before + 400000);
  at::Tensor loss;
  {
    const auto step = budget.step();
    loss = train(weight);
  }
  EXPECT_TRUE(same_bits(loss, plain));
  EXPECT_TRUE(same_bits(weight.grad(), gradient));
}

}  // namespace
}  // namespace encore::test
