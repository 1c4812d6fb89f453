// Several updates of the weights inside one scope: nothing of an older weight, gradient or graph is held that plain
// training would not hold.
#include "support/oracle.h"

namespace encore::test {
namespace {

constexpr int64_t kSide = 64;
constexpr int64_t kBytes = kSide * kSide * 4;

struct Run {
  Tensors weights;
  int64_t peak_bytes = 0;
  int64_t growth_bytes = 0;  // before the step ends
};

/// Runs `step` inside a scope with the policy, or plainly.
Run run(const std::optional<Policy>& policy, const std::function<Tensors()>& step, MemoryBudget* budget = nullptr) {
  torch::manual_seed(11);
  Run result;
  const MemoryScope memory;
  const int64_t before = live_tensor_bytes();
  std::optional<Scope> scope;
  if (policy) {
    scope.emplace(*policy);
  }
  std::optional<MemoryBudget::Step> within;
  if (budget != nullptr) {
    within.emplace(budget->step());
  }
  result.weights = step();
  result.growth_bytes = live_tensor_bytes() - before;
  scope.reset();
  within.reset();
  result.peak_bytes = memory.peak_growth_bytes();
  return result;
}

void expect_as_plain(const std::function<Tensors()>& step) {
  const Run expected = run({}, step);
  for (const Policy& policy : {drop_all(), keep_all()}) {
    const Run actual = run(policy, step);
    for (size_t i = 0; i < expected.weights.size(); ++i) {
      EXPECT_TRUE(same_bits(expected.weights[i], actual.weights[i])) << "weight " << i;
    }
    EXPECT_EQ(actual.growth_bytes, expected.growth_bytes);
    if (policy.rest() == Action::kKeep) {  // replay has a peak of its own
      EXPECT_EQ(actual.peak_bytes, expected.peak_bytes);
    }
  }
  MemoryBudget budget(live_tensor_bytes() + expected.peak_bytes);
  for (int i = 0; i < 2; ++i) {
    const Run actual = run({}, step, &budget);
    for (size_t k = 0; k < expected.weights.size(); ++k) {
      EXPECT_TRUE(same_bits(expected.weights[k], actual.weights[k])) << "weight " << k << " within the budget";
    }
    EXPECT_LE(actual.peak_bytes, expected.peak_bytes);
    EXPECT_EQ(actual.growth_bytes, expected.growth_bytes);
  }
}

void sub(const at::Tensor& weight, double rate) {
  const at::NoGradGuard no_grad;
  weight.sub_(weight.grad() * rate);
}

TEST(Updates, AHundredMicroSteps) {
  expect_as_plain([] {
    const at::Tensor w = leaf({kSide, kSide});
    const at::Tensor v = leaf({kSide, kSide});
    for (int i = 0; i < 100; ++i) {
      const at::Tensor x = torch::randn({kSide, kSide});
      x.mm(w).sin().mm(v).tanh().mean().backward();
      sub(w, 0.1);
      sub(v, 0.1);
      w.mutable_grad() = at::Tensor();
      v.mutable_grad() = at::Tensor();
    }
    return Tensors{w, v};
  });
}

TEST(Updates, WhileAnotherGraphIsAlive) {
  expect_as_plain([] {
    const at::Tensor w = leaf({kSide, kSide});
    const at::Tensor v = leaf({kSide, kSide});
    const at::Tensor kept = torch::randn({kSide, kSide}).mm(v).sin().exp().sum();
    for (int i = 0; i < 50; ++i) {
      torch::randn({kSide, kSide}).mm(w).sin().mean().backward();
      sub(w, 0.1);
      w.mutable_grad() = at::Tensor();
    }
    kept.backward();
    sub(v, 0.1);
    return Tensors{w, v};
  });
}

TEST(Updates, GradientAccumulation) {
  expect_as_plain([] {
    const at::Tensor w = leaf({kSide, kSide});
    torch::optim::SGD optimizer({w}, torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int i = 0; i < 24; ++i) {
      torch::randn({kSide, kSide}).mm(w).sin().mean().backward();
      if (i % 4 == 3) {
        optimizer.step();
        optimizer.zero_grad();
      }
    }
    return Tensors{w};
  });
}

TEST(Updates, TwoOptimizersAgainstEachOther) {
  expect_as_plain([] {
    const at::Tensor generator = leaf({kSide, kSide});
    const at::Tensor judge = leaf({kSide, 1});
    torch::optim::Adam first({generator}, torch::optim::AdamOptions(0.01));
    torch::optim::Adam second({judge}, torch::optim::AdamOptions(0.01));
    for (int i = 0; i < 10; ++i) {
      const at::Tensor made = torch::randn({kSide, kSide}).mm(generator).tanh();
      for (int k = 0; k < 3; ++k) {
        second.zero_grad();
        (made.detach().mm(judge).sigmoid().mean() - torch::randn({kSide, kSide}).mm(judge).sigmoid().mean()).backward();
        second.step();
      }
      first.zero_grad();
      made.mm(judge).sigmoid().mean().neg().backward();
      first.step();
    }
    return Tensors{generator, judge};
  });
}

TEST(Updates, LimitedMemoryBfgs) {
  expect_as_plain([] {
    const at::Tensor w = leaf({kSide, 8});
    const at::Tensor x = torch::randn({kSide, kSide});
    torch::optim::LBFGS optimizer({w}, torch::optim::LBFGSOptions(0.5).max_iter(12).history_size(4));
    optimizer.step([&] {
      optimizer.zero_grad();
      const at::Tensor loss = (x.mm(w).sin() - 0.3).pow(2).mean();
      loss.backward();
      return loss;
    });
    return Tensors{w};
  });
}

/// A graph that was built before an update and needs the older weight gets it, from a copy that goes with the graph.
TEST(Updates, ACopyGoesWithTheGraphThatNeedsIt) {
  torch::manual_seed(5);
  const at::Tensor x = leaf({kSide, kSide});
  const at::Tensor w = torch::randn({kSide, kSide});
  const at::Tensor old = w.clone();
  const Scope scope(drop_all());
  const int64_t before = live_tensor_bytes();
  {
    const at::Tensor loss = (x * 2).add(w).sin().sum();
    w.mul_(0.5);
    EXPECT_GE(live_tensor_bytes() - before, kBytes);
    loss.backward();
    EXPECT_TRUE(same_bits(x.grad(), (x.detach() * 2).add(old).cos() * 2));
    x.mutable_grad() = at::Tensor();
  }
  torch::ones({1}).requires_grad_().sum().backward();
  EXPECT_EQ(live_tensor_bytes(), before);
}

}  // namespace
}  // namespace encore::test
