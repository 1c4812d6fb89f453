// Values and gradients of checkpointed functions equal the plain run, bit for bit.
#include "support/oracle.h"

namespace encore::test {
namespace {

using Values = EveryMode;

at::Tensor leaf(at::IntArrayRef sizes) {
  return torch::randn(sizes).requires_grad_();
}

TEST_P(Values, ChainOfOps) {
  expect_same(
      [] {
        return Tensors{leaf({4, 8}), leaf({8, 8})};
      },
      [](const Tensors& x) { return Tensors{x[0].mm(x[1]).tanh().exp().mul(x[0]).softmax(-1)}; });
}

TEST_P(Values, CapturedParametersGetGradients) {
  expect_same(
      [] {
        return Tensors{leaf({4, 8}), leaf({8, 8})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const at::Tensor weight = x[1];
        const auto f = [weight](const Tensors& in) { return Tensors{in[0].mm(weight).relu().mm(weight)}; };
        backward_of_sum(apply(mode, f, {x[0]}), x, outcome);
        return outcome;
      });
}

TEST_P(Values, SameTensorTwiceAndInputAsOutput) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const auto f = [](const Tensors& in) { return Tensors{in[0] * in[1], in[0], in[1].t()}; };
        backward_of_sum(apply(mode, f, {x[0], x[0]}), x, outcome);
        return outcome;
      });
}

TEST_P(Values, DropoutDrawsTheSameNumbers) {
  expect_same(
      [] {
        return Tensors{leaf({16, 16})};
      },
      [](const Tensors& x) {
        return Tensors{torch::dropout(torch::dropout(x[0].sin(), 0.5, true).exp(), 0.3, true) + torch::randn({16, 16})};
      });
}

ENCORE_IN_EVERY_MODE(Values);

}  // namespace
}  // namespace encore::test
