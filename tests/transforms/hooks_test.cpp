// Checkpoints on inputs, and backward that tells of each leaf.
#include "support/oracle.h"

namespace encore::test {
namespace {

struct Recorded final : BackwardHook {
  Tensors leaves;
  Tensors grads;
  void on_leaf_grad_ready(const at::Tensor& leaf, const at::Tensor& grad) override {
    leaves.push_back(leaf);
    grads.push_back(grad.clone());
  }
  int64_t calls(const at::Tensor& leaf) const {
    return std::count_if(leaves.begin(), leaves.end(), [&](const at::Tensor& each) { return each.is_same(leaf); });
  }
};

at::Tensor leaf(std::initializer_list<float> values) {
  return torch::tensor(std::vector<float>(values)).requires_grad_();
}

at::Tensor product(const Tensors& x) {
  return x[0] * x.back();
}

TEST(CheckpointOnInputs, LiteratureValues) {
  const at::Tensor three = leaf({3});
  checkpoint(product, Tensors{three}).sum().backward();
  EXPECT_EQ(three.grad().item<float>(), 6);

  const at::Tensor x = leaf({2});
  const at::Tensor y = leaf({5});
  checkpoint(product, Tensors{x, y}).backward();
  EXPECT_EQ(x.grad().item<float>(), 5);
  EXPECT_EQ(y.grad().item<float>(), 2);

  const at::Tensor two = leaf({2});
  checkpoint(product, Tensors{checkpoint(product, Tensors{two})}).sum().backward();
  EXPECT_EQ(two.grad().item<float>(), 32);  // of x^4

  const at::Tensor vector = leaf({2, 3});
  checkpoint(product, Tensors{vector}).sum().backward();
  EXPECT_TRUE(same_bits(vector.grad(), torch::tensor({4.0F, 6.0F})));

  const at::Tensor twelve = leaf({3});
  checkpoint([](const Tensors& in) { return (in[0] + in[0]) * in[0]; }, Tensors{twelve}).sum().backward();
  EXPECT_EQ(twelve.grad().item<float>(), 12);

  EXPECT_THROW(checkpoint(product, Tensors{}), InvalidArgument);
  EXPECT_THROW(checkpoint([] { return torch::ones({}); })(), InvalidArgument);
}

TEST(BackwardHooks, FireThroughCheckpoints) {
  for (const Mode& mode : all_modes()) {
    const at::Tensor x = leaf({3});
    Recorded hook;
    backward_with_hooks(checkpoint(mode.options, product, Tensors{x}).sum(), hook);
    ASSERT_EQ(hook.leaves.size(), 1u) << mode.name;
    EXPECT_TRUE(hook.leaves[0].is_same(x));
    EXPECT_EQ(hook.grads[0].item<float>(), 6);
  }
}

TEST(BackwardHooks, OncePerLeafWithTheCompleteGradient) {
  const Mode replay{"", true, {}, {}};
  for (const Mode& mode : {plain(), replay}) {
    torch::manual_seed(3);
    const at::Tensor w = torch::randn({8, 8}).requires_grad_();
    const at::Tensor b = torch::randn({8}).requires_grad_();
    const at::Tensor x = torch::randn({4, 8});
    const auto layer = [&](const Tensors& in) { return Tensors{in[0].mm(w).add(b).tanh()}; };
    // Used inside two checkpoints, and outside.
    const auto forward = [&] { return (apply(mode, layer, apply(mode, layer, {x}))[0].mm(w) + b).sum(); };
    forward().backward();
    const at::Tensor expected_w = w.grad().clone();
    const at::Tensor expected_b = b.grad().clone();
    w.mutable_grad().reset();
    b.mutable_grad().reset();
    Recorded hook;
    backward_with_hooks(forward(), hook);
    EXPECT_EQ(hook.leaves.size(), 2u);
    EXPECT_EQ(hook.calls(w), 1);
    EXPECT_EQ(hook.calls(b), 1);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(same_bits(hook.grads[i], hook.leaves[i].is_same(w) ? expected_w : expected_b));
    }
  }
}

TEST(BackwardHooks, AsSoonAsTheGradientIsComplete) {
  Tensors weights;
  at::Tensor value = torch::randn({4, 8});
  for (int i = 0; i < 6; ++i) {
    weights.push_back(torch::randn({8, 8}).requires_grad_());
    value = checkpoint([](const at::Tensor& x, const at::Tensor& w) { return x.mm(w).tanh(); }, value, weights.back());
  }
  std::vector<size_t> order;
  backward_with_hooks(value.sum(), [&](const at::Tensor& leaf, const at::Tensor&) {
    for (size_t i = 0; i < weights.size(); ++i) {
      if (leaf.is_same(weights[i])) {
        order.push_back(i);
        // Nothing before this layer has been reached.
        for (size_t j = 0; j < i; ++j) {
          EXPECT_FALSE(weights[j].grad().defined());
        }
      }
    }
  });
  EXPECT_EQ(order, (std::vector<size_t>{5, 4, 3, 2, 1, 0}));
}

TEST(BackwardHooks, AddToWhatIsThereAndAreGoneAfterwards) {
  const at::Tensor x = leaf({3});
  Recorded hook;
  backward_with_hooks((x * x).sum(), hook);
  backward_with_hooks((x * x).sum(), hook);
  EXPECT_EQ(hook.calls(x), 2);
  EXPECT_EQ(hook.grads[1].item<float>(), 12);
  (x * x).sum().backward();
  EXPECT_EQ(hook.calls(x), 2);
  EXPECT_EQ(x.grad().item<float>(), 18);
}

TEST(BackwardHooks, ExceptionsEndBackwardAndTakeTheHooksOff) {
  const at::Tensor x = leaf({3});
  const at::Tensor loss = (x * x).sum();
  const BackwardOptions keep{{}, true, false};
  EXPECT_THROW(backward_with_hooks(
                   loss, [](const at::Tensor&, const at::Tensor&) { throw std::out_of_range("mine"); }, keep),
               std::out_of_range);
  x.mutable_grad().reset();
  int calls = 0;
  backward_with_hooks(loss, [&](const at::Tensor&, const at::Tensor&) { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(x.grad().item<float>(), 6);
}

TEST(BackwardHooks, RefuseALossWithoutLeaves) {
  EXPECT_THROW(backward_with_hooks(torch::ones({}), [](const auto&, const auto&) {}), InvalidArgument);
  EXPECT_THROW(backward_with_hooks(at::Tensor(), [](const auto&, const auto&) {}), InvalidArgument);
  const at::Tensor x = torch::ones({}).requires_grad_();
  Recorded hook;
  backward_with_hooks(x, hook);  // a leaf is its own loss
  EXPECT_EQ(hook.calls(x), 1);
}

/// Trains one step of a deep chain; the peak of bytes above the start, and the weights after it.
std::pair<int64_t, Tensors> step(bool inside) {
  constexpr int kLayers = 32;
  torch::manual_seed(5);
  Tensors weights;
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back((torch::randn({64, 64}) / 8).requires_grad_());
  }
  const at::Tensor x = torch::randn({2, 64});
  const auto update = [](const at::Tensor& leaf, const at::Tensor& grad) {
    const at::NoGradGuard no_grad;
    leaf.sub_(grad, 0.1);
    leaf.mutable_grad().reset();
  };
  const MemoryScope memory;
  {
    at::Tensor value = x;
    for (const at::Tensor& w : weights) {
      value = checkpoint([](const at::Tensor& in, const at::Tensor& weight) { return in.mm(weight).tanh(); }, value, w);
    }
    const at::Tensor loss = value.pow(2).sum();
    if (inside) {
      backward_with_hooks(loss, update);
    } else {
      loss.backward();
      for (const at::Tensor& w : weights) {
        update(w, w.grad());
      }
    }
  }
  return {memory.peak_growth_bytes(), weights};
}

TEST(BackwardHooks, AnOptimizerInsideBackwardFreesGradientsAsItGoes) {
  const auto after = step(false);
  const auto inside = step(true);
  for (size_t i = 0; i < after.second.size(); ++i) {
    EXPECT_TRUE(same_bits(after.second[i], inside.second[i]));
  }
  constexpr int64_t kGradient = 64 * 64 * 4;
  EXPECT_GE(after.first, 32 * kGradient);
  EXPECT_LE(inside.first, 4 * kGradient);
}

}  // namespace
}  // namespace encore::test
