// Operators of a user's library, with every kind of alias that a schema can say.
#include "support/schemas.h"
#include "support/oracle.h"

namespace encore::test {
namespace {

using Schemas = EveryMode;

Tensors one_leaf() {
  return {leaf({6, 5})};
}

TEST_P(Schemas, AWrittenKeywordArgumentMayBeReadToo) {
  expect_same(one_leaf, [](const Tensors& x) {
    at::Tensor acc = x[0].detach().cos();
    {
      const at::NoGradGuard no_grad;
      find_schema<at::Tensor&(const at::Tensor&, at::Tensor&)>("accumulate").call(x[0].detach(), acc);
    }
    return Tensors{(x[0].exp() * acc).sin()};
  });
}

TEST_P(Schemas, AnOutArgumentMayBeSetInPart) {
  expect_same(one_leaf, [](const Tensors& x) {
    at::Tensor out = x[0].detach().cos();
    {
      const at::NoGradGuard no_grad;
      find_schema<at::Tensor&(const at::Tensor&, at::Tensor&)>("first_row").call(x[0].detach(), out);
    }
    return Tensors{(x[0].exp() * out).sin()};
  });
}

TEST_P(Schemas, ADeclaredStateIsUpdatedBesideAResult) {
  const at::Tensor start = torch::full({5}, 2);
  at::Tensor state;
  expect_same(
      [&] {
        state = start.clone();
        return one_leaf();
      },
      [&](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const Tensors y = apply(
            mode,
            [&](const Tensors& in) {
              at::Tensor h = in[0].exp().sin();
              for (int i = 0; i < 3; ++i) {
                const at::Tensor s =
                    find_schema<at::Tensor(const at::Tensor&, at::Tensor&)>("scale").call(h.detach(), state);
                h = (h * s).sin();
              }
              return Tensors{h};
            },
            x);
        backward_of_sum(y, x, outcome);
        outcome.add("state", state);
        return outcome;
      });
}

TEST_P(Schemas, AStateFromInsideIsUpdatedBesideAResult) {
  expect_same(one_leaf, [](const Tensors& x) {
    at::Tensor state = x[0].detach().select(0, 1).abs();
    at::Tensor h = x[0].exp().sin();
    for (int i = 0; i < 3; ++i) {
      const at::Tensor s = find_schema<at::Tensor(const at::Tensor&, at::Tensor&)>("scale").call(h.detach(), state);
      h = (h * s).sin();
    }
    return Tensors{h * state};
  });
}

TEST_P(Schemas, TwoArgumentsAreWritten) {
  expect_same(one_leaf, [](const Tensors& x) {
    at::Tensor a = x[0].detach().cos();
    at::Tensor b = x[0].detach().sin();
    for (int i = 0; i < 2; ++i) {
      const at::NoGradGuard no_grad;
      find_schema<std::tuple<at::Tensor&, at::Tensor&>(at::Tensor&, at::Tensor&)>("swap_add").call(a, b);
    }
    return Tensors{(x[0].exp() * a).sin() * b};
  });
}

TEST_P(Schemas, AStateIsWrittenAndNothingIsGiven) {
  expect_same(one_leaf, [](const Tensors& x) {
    at::Tensor state = x[0].detach().cos();
    const at::Tensor before = x[0] + state.sin();
    {
      const at::NoGradGuard no_grad;
      find_schema<void(at::Tensor&)>("bump").call(state);
    }
    return Tensors{before.sin() * (x[0].exp() * state.clone()).sin()};
  });
}

ENCORE_IN_EVERY_MODE(Schemas);

}  // namespace
}  // namespace encore::test
