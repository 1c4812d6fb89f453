// Tensors of every kind inside a checkpoint: constants, raw bytes, complex, sparse, quantized, script code.
#include <torch/script.h>

#include "support/custom_ops.h"
#include "support/oracle.h"

namespace encore::test {
namespace {

using Kinds = EveryMode;

TEST_P(Kinds, ConstantsMadeFromLists) {
  expect_same(
      [] {
        return Tensors{leaf({3, 2})};
      },
      [](const Tensors& x) {
        const at::Tensor weights = torch::tensor({1.5F, -2.F, 0.25F});
        const at::Tensor rows = torch::tensor({2, 0, 1});
        const at::Tensor y = x[0].index({rows}).exp() * weights.unsqueeze(1);
        return Tensors{y.sin() * torch::tensor({{1.F, 2.F}, {3.F, 4.F}, {5.F, 6.F}}), y * torch::tensor(2.5F)};
      });
}

TEST_P(Kinds, KernelsThatAskWhetherABackwardMayFollow) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4})};
      },
      [](const Tensors& x) {
        const at::Tensor doubled = custom_ops::call("asks", x[0].detach());
        at::Tensor tripled;
        {
          const at::NoGradGuard no_grad;
          tripled = custom_ops::call("asks", x[0]);
        }
        return Tensors{x[0].exp() * doubled, x[0].sin() * tripled};
      });
}

TEST_P(Kinds, BytesWrittenThroughPointersAndAccessors) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4})};
      },
      [](const Tensors& x) {
        at::Tensor zeros = torch::zeros({4, 4});
        auto cells = zeros.accessor<float, 2>();
        for (int64_t i = 0; i < 4; ++i) {
          cells[i][i] = static_cast<float>(i + 1);
        }
        at::Tensor empty = torch::empty({4, 4});
        std::fill_n(empty.data_ptr<float>(), 16, 0.75F);
        empty.mul_(2);
        at::Tensor like = torch::ones_like(x[0]);
        like.data_ptr<float>()[3] = 7;
        std::vector<float> buffer(16, 1.25F);
        const at::Tensor blob = torch::from_blob(buffer.data(), {4, 4}).clone();
        const at::Tensor y = (x[0] * zeros + empty).exp();
        return Tensors{y * like, (y * blob).sin()};
      });
}

TEST_P(Kinds, BytesOfAFactoryWrittenBetweenReads) {
  expect_same(
      [] {
        return Tensors{leaf({8, 4096})};
      },
      [](const Tensors& x) {
        const at::Tensor zeros = torch::zeros({8, 4096});
        const at::Tensor before = (x[0][0] + zeros[0]).exp();
        zeros.data_ptr<float>()[1] = 3;  // where an op has read it, and none reads it again
        zeros.data_ptr<float>()[5 * 4096 + 7] = 5;
        const at::Tensor after = (x[0][5] + zeros[5]).exp();
        const at::Tensor apart = (x[0][7] + zeros[7]).sin();
        return Tensors{before.sin(), after.sin(), apart.exp()};
      });
}

/// Autograd reads the bytes that are there when backward runs, also where nobody else needs them any more.
TEST_P(Kinds, BytesOfAFactoryWrittenAfterTheyWereSaved) {
  expect_same(
      [] {
        return Tensors{leaf({8, 64})};
      },
      [](const Tensors& x) {
        const at::Tensor ones = torch::ones({8, 64});
        const at::Tensor y = x[0] * ones;
        ones.data_ptr<float>()[3] = 5;
        (void)(ones + 1);
        return Tensors{y.sin()};
      });
}

/// Nobody can make the first bytes again, so where they would be needed that is an error.
TEST_P(Kinds, UnsetBytesWrittenThroughAPointerTwice) {
  const auto step = [](const Mode& mode) {
    torch::manual_seed(3);
    Tensors x = {leaf({64})};
    std::optional<Scope> scope;
    if (mode.around) {
      scope.emplace(*mode.around);
    }
    const auto twice = [](const Tensors& in) {
      const at::Tensor empty = torch::empty({64});
      std::fill_n(empty.data_ptr<float>(), 64, 0.5F);
      const at::Tensor before = (in[0] + empty).exp();
      std::fill_n(empty.data_ptr<float>(), 64, 0.75F);
      return Tensors{before.sin(), (in[0] + empty).exp()};
    };
    const Tensors y = apply(mode, twice, x);
    Outcome outcome;
    backward_of_sum(y, x, outcome);
    return outcome;
  };
  const Outcome expected = step(plain());
  try {
    EXPECT_EQ(difference(expected, step(GetParam())), "");
  } catch (const ChangedError&) {
    EXPECT_TRUE(replays());
  }
}

TEST_P(Kinds, BufferFilledAnewBetweenReads) {
  expect_same(
      [] {
        return Tensors{leaf({64}), torch::ones({64})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        auto buffer = std::make_shared<std::vector<float>>(64, 1.F);
        const auto f = [buffer](const Tensors& in) {
          std::fill(buffer->begin(), buffer->end(), 1.F);
          const at::Tensor blob = torch::from_blob(buffer->data(), {64});
          const at::Tensor y = (in[0] + blob).exp();
          std::fill(buffer->begin(), buffer->end(), 2.F);
          return Tensors{(y + blob).sin().exp()};
        };
        backward_of_sum(apply(mode, f, x), {x[0]}, outcome);
        return outcome;
      });
}

TEST_P(Kinds, ComplexAndConjugateViews) {
  expect_same(
      [] {
        return Tensors{torch::randn({4, 4}, torch::kComplexFloat).requires_grad_(), leaf({4, 4})};
      },
      [](const Tensors& x) {
        const at::Tensor z = x[0].conj().mm(torch::complex(x[1].sin(), x[1].cos()));
        const at::Tensor w = (z * z.conj()).exp().conj().t();
        return Tensors{torch::real(w), torch::imag(w.conj() * z), z.abs().exp(), torch::view_as_real(z.resolve_conj())};
      });
}

TEST_P(Kinds, NegativeViews) {
  expect_same(
      [] {
        return Tensors{torch::randn({4, 4}, torch::kComplexFloat).requires_grad_()};
      },
      [](const Tensors& x) {
        const at::Tensor part = torch::imag(x[0].exp().conj());
        return Tensors{part * part.sin(), part.exp()};
      });
}

TEST_P(Kinds, SparseTensors) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4}), leaf({4, 4})};
      },
      [](const Tensors& x) {
        const at::Tensor sparse = (x[0].detach().exp() * (x[0].detach() > 0)).to_sparse();
        return Tensors{torch::mm(sparse, x[1].exp()).sin(), x[0].sin().to_sparse().to_dense().exp()};
      });
}

TEST_P(Kinds, SparseGradientsOfEmbeddings) {
  expect_same(
      [] {
        return Tensors{leaf({10, 4}), torch::randint(0, 10, {6})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const auto f = [](const Tensors& in) {
          return Tensors{torch::embedding(in[0], in[1], -1, false, /*sparse=*/true).sin().exp()};
        };
        apply(mode, f, x)[0].sum().backward();
        outcome.add("gradient", x[0].grad().to_dense());
        return outcome;
      });
}

TEST_P(Kinds, QuantizedTensors) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4})};
      },
      [](const Tensors& x) {
        const at::Tensor coarse = torch::quantize_per_tensor(x[0].detach().sin(), 0.1, 3, torch::kQInt8);
        const at::Tensor fake = torch::fake_quantize_per_tensor_affine(x[0].exp(), 0.05, 0, -128, 127);
        return Tensors{x[0].exp() * coarse.dequantize().cos(), fake.sin()};
      });
}

TEST_P(Kinds, EmptyAndZeroDimensionalTensors) {
  expect_same(
      [] {
        return Tensors{leaf({0, 4}), leaf({})};
      },
      [](const Tensors& x) {
        return Tensors{x[0].exp().sin(), x[1].exp().sin() * 2, torch::cat({x[0].exp(), x[1].exp().expand({2, 4})})};
      });
}

TEST_P(Kinds, CustomOpsThatDrawOrTakeDictionaries) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4})};
      },
      [](const Tensors& x) {
        at::Tensor a = x[0].detach().exp();
        const at::Tensor b = x[0].detach().sin();
        const at::Tensor mapped = custom_ops::call_mapped(a, b);
        a.mul_(3);
        const at::Tensor again = custom_ops::call_mapped(a, b).cos();
        return Tensors{x[0] * mapped.sin(), x[0] * again, x[0] * custom_ops::call("draws", b)};
      });
}

TEST_P(Kinds, ScriptFunctionsAndModules) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4}), leaf({4, 4})};
      },
      [this](const Mode& mode, Tensors& x) {
        const auto unit = torch::jit::compile(R"(
          def f(x, w, n: int):
              parts = []
              y = x
              for i in range(n):
                  y = torch.tanh(torch.mm(y, w)) * torch.sigmoid(y)
                  parts.append(y)
              parts[0] = parts[0] + 2.0
              parts[0].add_(1.0)
              return torch.cat(parts).exp()
        )");
        torch::jit::Module module("m");
        module.register_parameter("w", torch::ones({4, 4}).mul_(0.3), false);
        module.define(R"(
          def forward(self, x):
              return torch.dropout(torch.relu(torch.mm(x, self.w)), 0.5, True).exp() * torch.sigmoid(x)
        )");
        auto f = [unit, module](const Tensors& in) mutable {
          return Tensors{unit->run_method("f", in[0], in[1], 3).toTensor(), module.forward({in[0].sin()}).toTensor()};
        };
        Outcome outcome;
        // The first runs are profiled, and later ones optimised. Replay copes with both; a function that is called
        // again must do the same as before.
        for (int run = 0; run < 4 && !replays(); ++run) {
          backward_of_sum(f(x), {}, outcome);
        }
        for (int run = 0; run < 4; ++run) {
          backward_of_sum(apply(mode, f, x), {x[0], x[1], module.attr("w").toTensor()}, outcome);
        }
        return outcome;
      });
}

ENCORE_IN_EVERY_MODE(Kinds);

}  // namespace
}  // namespace encore::test
