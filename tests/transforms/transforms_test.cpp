// grad, value_and_grad and vjp: values from the literature, nesting, and what they refuse.
#include <thread>

#include "support/oracle.h"

namespace encore::test {
namespace {

Tensors square(const Tensors& x) {
  return {x[0] * x[0]};
}

at::Tensor scalar(double value) {
  return torch::tensor(value, torch::kFloat);
}

/// The gradients that autograd gives for the first result.
Tensors plain_grad(const Function& f, const Tensors& x, const std::vector<int64_t>& argnums) {
  Tensors inputs;
  for (const at::Tensor& each : x) {
    inputs.push_back(each.detach());
  }
  Tensors variables;
  for (const int64_t i : argnums) {
    inputs[static_cast<size_t>(i)].requires_grad_();
    variables.push_back(inputs[static_cast<size_t>(i)]);
  }
  return torch::autograd::grad({f(inputs)[0]}, variables);
}

TEST(Transforms, CheckpointOfSquareAtThreeIsNineAndItsGradientSix) {
  const auto checkpointed = checkpoint(&square);
  EXPECT_EQ(checkpointed(Tensors{scalar(3)})[0].item<float>(), 9);
  EXPECT_EQ(grad(checkpointed, {0})({scalar(3)})[0].item<float>(), 6);
  EXPECT_EQ(grad(square)({scalar(3)})[0].item<float>(), 6);
}

TEST(Transforms, ValueAndGradGivesAllResults) {
  const auto f = [](const Tensors& x) { return Tensors{(x[0] * x[1]).sum(), x[0] + 1}; };
  const Tensors x = {torch::randn({4}), torch::randn({4})};
  const auto [values, gradients] = value_and_grad(f, {1, 0})(x);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_TRUE(same_bits(values[0], (x[0] * x[1]).sum()));
  EXPECT_TRUE(same_bits(values[1], x[0] + 1));
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_TRUE(same_bits(gradients[0], x[0]));
  EXPECT_TRUE(same_bits(gradients[1], x[1]));
  EXPECT_FALSE(values[0].requires_grad());
  EXPECT_FALSE(gradients[0].requires_grad());
}

TEST(Transforms, VjpEqualsAutograd) {
  const auto f = [](const Tensors& x) { return Tensors{x[0].mm(x[1]).tanh(), x[0].exp()}; };
  const Tensors x = {torch::randn({3, 4}), torch::randn({4, 5})};
  const Tensors weights = {torch::randn({3, 5}), torch::randn({3, 4})};
  const auto [values, gradients] = vjp(checkpoint(f), x, weights);
  Tensors leaves = {x[0].clone().requires_grad_(), x[1].clone().requires_grad_()};
  const Tensors plain = f(leaves);
  torch::autograd::backward(plain, weights);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(same_bits(values[i], plain[i]));
    EXPECT_TRUE(same_bits(gradients[i], leaves[i].grad()));
  }
}

TEST(Transforms, NestInAnyOrderWithCheckpoint) {
  const auto cube = [](const Tensors& x) { return Tensors{x[0] * x[0] * x[0]}; };
  const Tensors two = {scalar(2)};
  EXPECT_EQ(grad(grad(cube))(two)[0].item<float>(), 12);
  EXPECT_EQ(grad(grad(grad(cube)))(two)[0].item<float>(), 6);
  EXPECT_EQ(grad(grad(checkpoint(cube)))(two)[0].item<float>(), 12);
  EXPECT_EQ(grad(checkpoint(grad(cube)))(two)[0].item<float>(), 12);
  EXPECT_EQ(checkpoint(grad(grad(cube)))(two)[0].item<float>(), 12);
  EXPECT_EQ(grad(checkpoint(grad(checkpoint(cube))))(two)[0].item<float>(), 12);
  EXPECT_EQ(grad(grad(checkpoint(grad(cube))))(two)[0].item<float>(), 6);
}

TEST(Transforms, SecondDerivativesThroughCheckpointEqualThePlainOnes) {
  const Tensors x = {torch::randn({6, 6}), torch::randn({6, 6})};
  const auto f = [](const Tensors& in) { return Tensors{in[0].mm(in[1]).tanh().mm(in[0]).sigmoid().sum()}; };
  const auto second = [&](const TensorFunction& g) {
    const auto first = [g](const Tensors& in) { return Tensors{grad(g, {0})(in)[0].pow(2).sum()}; };
    return grad(first, {0, 1})(x);
  };
  const Tensors plain = second(f);
  const Tensors checkpointed = second(checkpoint(f));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(same_bits(plain[i], checkpointed[i]));
  }
  // And the same by autograd alone.
  Tensors leaves = {x[0].clone().requires_grad_(), x[1].clone().requires_grad_()};
  const Tensors first = torch::autograd::grad({f(leaves)[0]}, {leaves[0]}, {}, true, true);
  const Tensors oracle = torch::autograd::grad({first[0].pow(2).sum()}, leaves);
  EXPECT_TRUE(same_bits(plain[0], oracle[0]));
  EXPECT_TRUE(same_bits(plain[1], oracle[1]));
}

TEST(Transforms, CheckpointInsideSavesMemoryAndRecomputes) {
  const auto f = [](const Tensors& x) { return Tensors{x[0].sin().exp().sin().exp().sin().sum()}; };
  const Tensors x = {torch::randn({64, 64})};
  const CheckpointProfiler profiler;
  const Tensors gradients = grad(checkpoint(f))(x);
  EXPECT_TRUE(same_bits(gradients[0], plain_grad(f, x, {0})[0]));
  EXPECT_EQ(profiler.report().memory_saved_bytes, 2 * 64 * 64 * 4);  // of each exp and the sin after it, one value
  EXPECT_EQ(profiler.report().ops_replayed, 4);
}

TEST(Transforms, LeaveTheCallersTensorsAlone) {
  const at::Tensor x = torch::randn({3}).requires_grad_();
  const at::Tensor w = torch::randn({3}).requires_grad_();
  const at::Tensor y = torch::randn({3});
  const auto f = [w](const Tensors& in) { return Tensors{(in[0] * in[1] * w).sum()}; };
  grad(f, {0, 1})({x, y});
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(w.grad().defined());
  EXPECT_FALSE(y.requires_grad());
  EXPECT_FALSE(y.grad().defined());
  EXPECT_TRUE(x.is_leaf() && x.requires_grad());
}

TEST(Transforms, ResultsCanBeDifferentiatedByWhoeverRequiresIt) {
  const at::Tensor w = torch::randn({3}).requires_grad_();
  const at::Tensor x = torch::randn({3});
  const auto f = [w](const Tensors& in) { return Tensors{(in[0].pow(2) * w).sum()}; };
  const at::Tensor gradient = grad(f)({x})[0];
  ASSERT_TRUE(gradient.requires_grad());
  gradient.sum().backward();
  EXPECT_TRUE(same_bits(w.grad(), x * 2));
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(grad(f)({x})[0].requires_grad());
}

TEST(Transforms, UnusedArgumentsHaveZeros) {
  const auto f = [](const Tensors& x) { return Tensors{x[0].sum()}; };
  const Tensors gradients = grad(f, {1})({torch::ones({2}), torch::ones({3})});
  EXPECT_TRUE(same_bits(gradients[0], torch::zeros({3})));
  const auto constant = [](const Tensors&) { return Tensors{torch::ones({})}; };
  EXPECT_TRUE(same_bits(grad(constant)({torch::ones({2})})[0], torch::zeros({2})));
}

TEST(Transforms, GraphIsGoneAfterTheCall) {
  live_tensor_bytes();  // the allocator counts from here on
  const Tensors x = {torch::randn({64, 64})};
  const auto g = value_and_grad(checkpoint([](const Tensors& in) { return Tensors{in[0].sin().exp().sum()}; }));
  const int64_t live = live_tensor_bytes();
  const auto result = g(x);
  EXPECT_EQ(live_tensor_bytes() - live, 64 * 64 * 4 + 4);  // the gradient and the value
}

TEST(Transforms, WrappedFunctionsAreCopiedStoredAndCalledFromThreads) {
  const auto f = checkpoint([](const Tensors& x) { return Tensors{x[0].sin().exp().mul(x[0]).sum()}; });
  const std::vector<TensorFunction> stored(3, grad(f));
  const Tensors x = {torch::randn({32, 32})};
  const at::Tensor expected = stored[0](x)[0];
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const TensorFunction copy = stored[static_cast<size_t>(i) % 3];
        wrong[t] += same_bits(copy(x)[0], expected) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Transforms, RefuseWhatHasNoDerivative) {
  const Tensors x = {torch::ones({3}), torch::ones({3}, torch::kLong)};
  EXPECT_THROW(grad(square)({x[0]}), InvalidArgument) << "a result of three elements";
  EXPECT_THROW(grad(square, {1})({x[0]}), InvalidArgument) << "an index out of range";
  EXPECT_THROW(grad(square, {-1}), InvalidArgument);
  EXPECT_THROW(grad(square, {0, 1, 0}), InvalidArgument) << "a repeated index";
  EXPECT_THROW(grad(square, std::vector<int64_t>()), InvalidArgument);
  EXPECT_THROW(grad(square, {0})({x[1]}), InvalidArgument) << "an integer primal";
  EXPECT_THROW(grad(square)({at::Tensor()}), InvalidArgument);
  EXPECT_THROW(grad(TensorFunction()), InvalidArgument);
  EXPECT_THROW(grad([](const Tensors&) { return Tensors(); })({x[0]}), InvalidArgument);
  EXPECT_THROW(vjp(square, {x[1]}, {x[1]}), InvalidArgument);
  EXPECT_THROW(vjp(square, {x[0]}, {}), InvalidArgument);
  EXPECT_THROW(vjp(square, {x[0]}, {torch::ones({4})}), InvalidArgument);
  EXPECT_THROW(vjp(square, {}, {}), InvalidArgument);
  try {
    grad(square)({x[0]});
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("[3]"), std::string::npos) << error.what();
  }
}

TEST(Transforms, ExceptionsOfTheFunctionArriveUnchanged) {
  const auto f = [](const Tensors&) -> Tensors { throw std::out_of_range("mine"); };
  EXPECT_THROW(grad(f)({scalar(1)}), std::out_of_range);
  EXPECT_THROW(grad(checkpoint(f))({scalar(1)}), std::out_of_range);
  EXPECT_EQ(grad(square)({scalar(3)})[0].item<float>(), 6);
}

}  // namespace
}  // namespace encore::test
