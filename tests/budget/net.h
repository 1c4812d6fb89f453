// A small network, and the comparison of its gradients within a budget with those without.
#pragma once

#include "support/oracle.h"
#include "support/torch_pch.h"

namespace encore::test {

/// A chain of matmuls and activations of `width` x `width` doubles.
struct Net {
  explicit Net(int64_t layers = 12, int64_t width = 64) {
    torch::manual_seed(5);
    for (int64_t i = 0; i < layers; ++i) {
      weights.push_back(torch::randn({width, width}, torch::kDouble).div_(8).requires_grad_());
    }
    input = torch::randn({256, width}, torch::kDouble);
  }
  at::Tensor loss() const { return loss(input); }
  at::Tensor loss(at::Tensor x) const {
    for (const at::Tensor& weight : weights) {
      x = torch::dropout(x.matmul(weight).tanh(), 0.1, true).sigmoid();
    }
    return x.square().mean();
  }
  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& weight : weights) {
      all.push_back(weight.grad().clone());
    }
    return all;
  }
  void forget() {
    for (at::Tensor& weight : weights) {
      weight.mutable_grad() = at::Tensor();
    }
  }

  std::vector<at::Tensor> weights;
  at::Tensor input;
};

inline bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  bool equal = a.size() == b.size();
  for (size_t i = 0; equal && i < a.size(); ++i) {
    equal = same_bits(a[i], b[i]);
  }
  return equal;
}

/// Runs `body` plainly and then `steps` times within `part` of its plain memory; gradients must be the same.
template <class Body>
StepReport expect_same(Net& net, const Body& body, double part = 0.5, int steps = 4) {
  const auto run = [&] {
    torch::manual_seed(9);
    body();
    std::vector<at::Tensor> result = net.gradients();
    net.forget();
    return result;
  };
  run();
  const int64_t resting = live_tensor_bytes();
  std::vector<at::Tensor> plain;
  int64_t growth = 0;
  {
    const MemoryScope memory;
    plain = run();
    growth = memory.peak_growth_bytes();
  }
  const int64_t kept = live_tensor_bytes() - resting;
  MemoryBudget budget(resting + kept + static_cast<int64_t>(part * static_cast<double>(growth)));
  for (int i = 0; i < steps; ++i) {
    const MemoryScope memory;
    torch::manual_seed(9);
    {
      const auto step = budget.step();
      body();
    }
    EXPECT_LE(memory.peak_bytes(), budget.limit_bytes());
    EXPECT_TRUE(same(net.gradients(), plain)) << "step " << i;
    net.forget();
    EXPECT_EQ(live_tensor_bytes(), resting + kept) << "nothing leaks";
  }
  return budget.report();
}

}  // namespace encore::test
