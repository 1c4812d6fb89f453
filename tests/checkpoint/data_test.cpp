// Bytes that change through data(), which no version counter sees: backward reads what plain autograd would, or
// refuses.
#include "support/oracle.h"

namespace encore::test {
namespace {

using Data = EveryMode;

Tensors one_leaf() {
  return {leaf({24, 40})};
}

TEST_P(Data, AResultIsClampedAfterItWasSaved) {
  expect_same(one_leaf, [](const Tensors& x) {
    const at::Tensor y = x[0].sigmoid();
    y.data().clamp_(0.4, 0.6);
    return Tensors{y * 2};
  });
}

TEST_P(Data, OneElementOfAResultIsSet) {
  expect_same(one_leaf, [](const Tensors& x) {
    const at::Tensor y = x[0].exp();
    y.data()[3][7].fill_(5);
    return Tensors{y.sin()};
  });
}

TEST_P(Data, AResultIsChangedByWhatCameBefore) {
  expect_same(
      [] {
        return Tensors{leaf({24, 40}), leaf({24, 40})};
      },
      [](const Tensors& x) {
        const at::Tensor factor = x[1].cos() * 3;
        const at::Tensor y = x[0].tanh();
        y.data().mul_(factor).add_(1);
        const at::Tensor z = y * factor;
        y.data().sub_(factor);
        return Tensors{z.exp()};
      });
}

TEST_P(Data, TheCallerChangesAResultOfTheFunction) {
  expect_same(one_leaf, [](const Mode& mode, Tensors& x) {
    Outcome outcome;
    const at::Tensor factor = x[0].detach().cos();
    const Tensors y = apply(
        mode, [](const Tensors& in) { return Tensors{in[0].sigmoid()}; }, x);
    y[0].data().mul_(factor);
    y[0].data()[1][2].fill_(9);
    backward_of_sum({y[0] * y[0]}, x, outcome);
    return outcome;
  });
}

/// One of the results makes the function be called again before the other is asked for.
TEST_P(Data, TheCallerChangesOneOfTwoResults) {
  expect_same(one_leaf, [](const Mode& mode, Tensors& x) {
    Outcome outcome;
    const Tensors y = apply(
        mode,
        [](const Tensors& in) {
          const at::Tensor first = in[0].exp();
          return Tensors{first, (first * in[0].sin()).cos()};
        },
        x);
    y[0].data()[2][3].fill_(4);
    backward_of_sum({y[1]}, x, outcome);
    return outcome;
  });
}

TEST_P(Data, AViewHasACounterOfItsOwn) {
  expect_same(one_leaf, [](const Tensors& x) {
    const at::Tensor y = x[0].exp();
    const at::Tensor behind = y.data().slice(0, 4, 9);
    const at::Tensor z = y.slice(0, 2, 12).sin();
    behind.neg_();
    return Tensors{z * y.slice(0, 2, 12)};
  });
}

/// Where nobody knows how the input was made it may be refused.
TEST_P(Data, AnInputOfTheFunctionIsChangedInIt) {
  const auto step = [](const Mode& mode) {
    torch::manual_seed(7);
    const Tensors x = one_leaf();
    std::optional<Scope> scope;
    if (mode.around) {
      scope.emplace(*mode.around);
    }
    const Tensors inner = {x[0].exp()};
    const Tensors y = apply(
        mode,
        [](const Tensors& in) {
          const at::Tensor before = in[0].sin();
          in[0].data().mul_(0.5);
          return Tensors{before * in[0].cos()};
        },
        inner);
    Outcome outcome;
    backward_of_sum(y, x, outcome);
    return outcome;
  };
  const Outcome expected = step(plain());
  try {
    EXPECT_EQ(difference(expected, step(GetParam())), "");
  } catch (const ChangedError&) {
    EXPECT_TRUE(!GetParam().around || !replays());
  }
}

/// What a function that is called again gives is a constant of the region around it.
TEST(DataOfConstants, AreNotTakenForWhatTheyWere) {
  const at::Tensor x = leaf({24, 40});
  at::Tensor inner;
  CheckpointOptions again;
  again.recompute = Recompute::kRerun;
  const at::Tensor y = checkpoint(
      [&](const at::Tensor& in) {
        inner = checkpoint(
            again, [](const at::Tensor& t) { return t * 2; }, in);
        return inner.to(at::kDouble).sin().exp();
      },
      x);
  inner.data()[5][6].fill_(7);
  EXPECT_THROW(y.sum().backward(), ChangedError);
}

class CapturedWeight : public ::testing::TestWithParam<std::tuple<Mode, int64_t>> {};

/// One element of a captured weight is set between forward and backward: a sample of its bytes may miss it.
TEST_P(CapturedWeight, OneElementIsSetBetweenForwardAndBackward) {
  const auto& [mode, rows] = GetParam();
  torch::manual_seed(3);
  for (const int64_t at : {int64_t{1}, rows / 3, rows - 1}) {
    const at::Tensor x = leaf({4, rows});
    const at::Tensor w = leaf({rows, 24});
    std::optional<Scope> scope;
    if (mode.around) {
      scope.emplace(*mode.around);
    }
    const Tensors y = apply(mode, [w](const Tensors& in) { return Tensors{in[0].mm(w).sin().exp()}; }, {x});
    if (scope) {
      scope->end();
    }
    w.data()[at][11].fill_(100);
    EXPECT_THROW(y[0].sum().backward(), Error) << "row " << at;
  }
}

/// The same of an input that no op on the tape made.
TEST_P(CapturedWeight, OneElementOfAnInputIsSetBetweenForwardAndBackward) {
  const auto& [mode, rows] = GetParam();
  torch::manual_seed(3);
  const at::Tensor w = leaf({rows, 24});
  const at::Tensor x = leaf({4, rows});
  std::optional<Scope> scope;
  if (mode.around) {
    scope.emplace(*mode.around);
  }
  const Tensors y = apply(mode, [w](const Tensors& in) { return Tensors{(in[0] + 1).mm(w).sin().exp()}; }, {x});
  if (scope) {
    scope->end();
  }
  x.data()[2][rows / 3].fill_(100);
  EXPECT_THROW(y[0].sum().backward(), Error);
}

INSTANTIATE_TEST_SUITE_P(Sizes, CapturedWeight,
                         ::testing::Combine(::testing::ValuesIn(all_modes()),
                                            ::testing::Values(int64_t{16}, int64_t{400}, int64_t{9000})),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + std::to_string(std::get<1>(test.param));
                         });

ENCORE_IN_EVERY_MODE(Data);

}  // namespace
}  // namespace encore::test
