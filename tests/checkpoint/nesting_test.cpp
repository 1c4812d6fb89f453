// Checkpoints in chains, inside each other, and in great number.
#include "support/oracle.h"

namespace encore::test {
namespace {

using Nesting = EveryMode;

TEST_P(Nesting, ThreeDeep) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4}), leaf({4, 4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const at::Tensor weight = x[1];
        const auto inner = [weight](const Tensors& in) {
          return Tensors{torch::dropout(in[0].mm(weight).tanh(), 0.3, true).exp()};
        };
        const auto middle = [&mode, inner](const Tensors& in) {
          const at::Tensor y = apply(mode, inner, {in[0].sin()})[0];
          return Tensors{apply(mode, inner, {y.cos()})[0] * y};
        };
        const auto outer = [&mode, middle](const Tensors& in) {
          const at::Tensor y = apply(mode, middle, {in[0].sigmoid()})[0];
          return Tensors{apply(mode, middle, {y.sin()})[0] + y.exp(), y};
        };
        backward_of_sum(apply(mode, outer, {x[0]}), x, outcome);
        return outcome;
      });
}

TEST_P(Nesting, TheOtherKindInside) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4}), leaf({4, 4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        Mode other = mode;
        other.options.recompute = mode.options.recompute == Recompute::kReplay ? Recompute::kRerun : Recompute::kReplay;
        const auto inner = [](const Tensors& in) {
          return Tensors{torch::dropout(in[0].mm(in[1]).tanh(), 0.3, true).exp()};
        };
        const auto outer = [&other, inner](const Tensors& in) {
          const at::Tensor y = apply(other, inner, {in[0].sin(), in[1]})[0];
          return Tensors{apply(other, inner, {y.cos(), in[1]})[0] * y.exp()};
        };
        backward_of_sum(apply(mode, outer, x), x, outcome);
        return outcome;
      });
}

TEST_P(Nesting, InnerChangesOutersValuesInPlace) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const auto inner = [](const Tensors& in) {
          at::Tensor y = in[0];
          const at::Tensor before = y * 2;
          y.narrow(0, 1, 2).mul_(before.narrow(0, 0, 2).sin());
          return Tensors{y.exp(), before.sin().exp()};
        };
        const auto outer = [&mode, inner](const Tensors& in) {
          at::Tensor y = in[0] + 1;
          const Tensors z = apply(mode, inner, {y});
          const at::Tensor w = (y + z[0]).sin();
          const Tensors v = apply(mode, inner, {y});
          return Tensors{w.exp(), v[1], v[0].sin()};
        };
        backward_of_sum(apply(mode, outer, x), x, outcome);
        return outcome;
      });
}

TEST_P(Nesting, CapturedValueOfTheOuterChangedByTheInner) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const auto outer = [&mode](const Tensors& in) {
          at::Tensor buffer = in[0].detach().exp();
          const auto inner = [buffer](const Tensors& a) {
            const at::Tensor y = (a[0] + buffer).sin();
            at::Tensor changed = buffer;
            changed.mul_(2);
            return Tensors{(y.exp() + changed).cos()};
          };
          const at::Tensor y = apply(mode, inner, {in[0].sin()})[0];
          return Tensors{apply(mode, inner, {y.exp()})[0], (y + buffer).exp()};
        };
        backward_of_sum(apply(mode, outer, x), x, outcome);
        return outcome;
      });
}

TEST_P(Nesting, ExceptionsOutOfTheInnermostAreCaughtInTheOuter) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const auto inner = [](const Tensors& in) -> Tensors {
          const at::Tensor y = in[0].exp();
          throw std::runtime_error("inner " + std::to_string(y.dim()));
        };
        const auto outer = [&mode, inner](const Tensors& in) {
          const at::Tensor y = in[0].sin();
          try {
            apply(mode, inner, {y});
          } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "inner 2");
          }
          return Tensors{y.exp()};
        };
        backward_of_sum(apply(mode, outer, x), x, outcome);
        return outcome;
      });
}

TEST_P(Nesting, TwoThousandCheckpointsInOneGraph) {
  expect_same([] { return Tensors{leaf({8})}; },
              [](const Mode& mode, Tensors& x) {
                Outcome outcome;
                const auto f = [](const Tensors& in) { return Tensors{in[0].sin().cos() * 1.01}; };
                at::Tensor y = x[0];
                for (int i = 0; i < 2000; ++i) {
                  y = apply(mode, f, {y})[0];
                }
                backward_of_sum({y}, x, outcome);
                return outcome;
              });
}

ENCORE_IN_EVERY_MODE(Nesting);

TEST(Depth, AChainOf100000OpsReplaysWithoutTheStack) {
  const auto f = [](const at::Tensor& in) {
    at::Tensor y = in;
    for (int i = 0; i < 100000; ++i) {
      y = i % 2 == 0 ? y.sin() : y * 1.01;
    }
    return y;
  };
  const at::Tensor x = leaf({2});
  const at::Tensor expected = torch::autograd::grad({f(x)}, {x}, {torch::ones({2})})[0];
  Scope scope;
  at::Tensor y = checkpoint(f, x);
  const at::Tensor actual = torch::autograd::grad({y}, {x}, {torch::ones({2})})[0];
  EXPECT_TRUE(same_bits(expected, actual));
  EXPECT_GE(scope.stats().ops_replayed, 99998);
}

}  // namespace
}  // namespace encore::test
