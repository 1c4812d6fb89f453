// Values and gradients of checkpointed functions equal the plain run, bit for bit.
#include "support/oracle.h"

namespace encore::test {
namespace {

using Values = EveryMode;

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

TEST_P(Values, CapturedIntermediatesGetGradients) {
  expect_same(
      [] {
        return Tensors{leaf({4, 8}), leaf({8, 8})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const at::Tensor captured = x[1].exp();
        const auto f = [captured](const Tensors& in) { return Tensors{in[0].mm(captured).sigmoid()}; };
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
        const auto f = [](const Tensors& in) { return Tensors{in[0].sin() * in[1].cos(), in[0], in[1].t()}; };
        backward_of_sum(apply(mode, f, {x[0], x[0]}), x, outcome);
        return outcome;
      });
}

TEST_P(Values, OutputThatIsAViewOfAnInput) {
  expects_drops_ = false;
  expect_same(
      [] {
        return Tensors{leaf({4, 6})};
      },
      [](const Tensors& x) {
        return Tensors{x[0].view({2, 12}).narrow(1, 2, 5), x[0].transpose(0, 1)};
      });
}

TEST_P(Values, OutputThatIsAViewOfAnIntermediate) {
  expect_same(
      [] {
        return Tensors{leaf({4, 6})};
      },
      [](const Tensors& x) {
        const at::Tensor y = x[0].exp();
        return Tensors{y.t().select(0, 1), y, y.narrow(0, 1, 2)};
      });
}

TEST_P(Values, OnlySomeOutputsAreUsed) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const auto f = [](const Tensors& in) { return Tensors{in[0].exp(), in[0].sin().exp(), in[0].tanh()}; };
        const Tensors out = apply(mode, f, x);
        backward_of_sum({out[1]}, x, outcome);
        return outcome;
      });
}

TEST_P(Values, IntegerAndBooleanTensorsPassThrough) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4}), torch::arange(4), torch::randn({4, 4}) > 0};
      },
      [](const Tensors& x) {
        const at::Tensor y = x[0].exp().index_select(0, x[1].flip(0));
        return Tensors{torch::where(x[2], y, y.sin()), x[1] * 2, x[2].logical_not(), y.argmax(1)};
      });
}

TEST_P(Values, OutputsThatNeedNoGradientStaySo) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4}), torch::randn({4, 4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const auto f = [](const Tensors& in) { return Tensors{in[0].exp(), in[1].exp(), in[0].detach().sin()}; };
        const Tensors out = apply(mode, f, x);
        EXPECT_TRUE(out[0].requires_grad());
        EXPECT_FALSE(out[1].requires_grad());
        EXPECT_FALSE(out[2].requires_grad());
        backward_of_sum(out, {x[0]}, outcome);
        return outcome;
      });
}

TEST_P(Values, InputsWithAndWithoutGradientMixed) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4}), torch::randn({4, 4}), torch::randn({4, 4}, torch::kDouble).requires_grad_()};
      },
      [](const Tensors& x) { return Tensors{(x[0] * x[1]).sigmoid() * x[2].sin()}; });
}

TEST_P(Values, NoInputRequiresGradientButAParameterDoes) {
  expect_same(
      [] {
        return Tensors{torch::randn({4, 8}), leaf({8, 8})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const at::Tensor weight = x[1];
        const auto f = [weight](const Tensors& in) { return Tensors{in[0].mm(weight).sigmoid()}; };
        backward_of_sum(apply(mode, f, {x[0]}), {weight}, outcome);
        return outcome;
      });
}

TEST_P(Values, NothingRequiresGradient) {
  expects_drops_ = false;
  expect_same([] { return Tensors{torch::randn({4, 8})}; }, [](const Tensors& x) { return Tensors{x[0].exp().sin()}; });
}

TEST_P(Values, SequentialAndModuleHolders) {
  expect_same(
      [] {
        return Tensors{leaf({4, 8})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        torch::nn::Sequential model(torch::nn::Linear(8, 16), torch::nn::GELU(),
                                    torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})), torch::nn::Dropout(0.5),
                                    torch::nn::Linear(16, 3));
        const at::Tensor y = mode.checkpointed ? checkpoint(mode.options, model, x[0]) : model->forward(x[0]);
        Tensors leaves = model->parameters();
        leaves.push_back(x[0]);
        backward_of_sum({y}, leaves, outcome);
        return outcome;
      });
}

TEST_P(Values, EachModuleOfAListCheckpointedInAChain) {
  expect_same(
      [] {
        return Tensors{leaf({4, 8})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        torch::nn::ModuleList list;
        at::Tensor y = x[0];
        for (int i = 0; i < 4; ++i) {
          list->push_back(torch::nn::Linear(8, 8));
        }
        for (const auto& module : *list) {
          auto linear = std::dynamic_pointer_cast<torch::nn::LinearImpl>(module);
          const auto f = [linear](const at::Tensor& in) { return linear->forward(in).tanh(); };
          y = mode.checkpointed ? checkpoint(mode.options, f, y) : f(y);
        }
        Tensors leaves = list->parameters();
        leaves.push_back(x[0]);
        backward_of_sum({y}, leaves, outcome);
        return outcome;
      });
}

TEST_P(Values, RecurrentLayers) {
  expect_same(
      [] {
        return Tensors{leaf({5, 2, 6})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        torch::nn::LSTM lstm(torch::nn::LSTMOptions(6, 4).num_layers(2).bidirectional(true).dropout(0.3));
        torch::nn::GRU gru(torch::nn::GRUOptions(8, 4));
        const auto f = [lstm, gru](const Tensors& in) mutable {
          const auto [y, state] = lstm->forward(in[0]);
          const auto [z, hidden] = gru->forward(y);
          return Tensors{z, std::get<0>(state), std::get<1>(state), hidden};
        };
        Tensors leaves = lstm->parameters();
        for (const auto& parameter : gru->parameters()) {
          leaves.push_back(parameter);
        }
        leaves.push_back(x[0]);
        backward_of_sum(apply(mode, f, x), leaves, outcome);
        return outcome;
      });
}

TEST_P(Values, ConvolutionsPoolingAndEmbeddings) {
  expect_same(
      [] {
        return Tensors{leaf({2, 3, 8, 8}), torch::randint(0, 10, {2, 5}), leaf({4, 3, 3, 3}), leaf({10, 6})};
      },
      [](const Tensors& x) {
        const at::Tensor y = torch::conv2d(x[0].sin(), x[2]).relu();
        return Tensors{torch::max_pool2d(y, 2).exp(), torch::embedding(x[3].exp(), x[1]).sigmoid(),
                       torch::adaptive_avg_pool2d(y, {2, 2})};
      });
}

ENCORE_IN_EVERY_MODE(Values);

TEST(ValuesWithoutGrad, GradModeOffRunsPlainlyAndRecordsNothing) {
  const at::Tensor x = leaf({4, 4});
  int calls = 0;
  const auto f = [&](const at::Tensor& in) {
    ++calls;
    EXPECT_THROW(static_cast<void>(checkpoint(in)), ScopeError) << "nothing is recorded";
    return in.exp().sin();
  };
  for (const Recompute recompute : {Recompute::kReplay, Recompute::kRerun}) {
    CheckpointOptions options;
    options.recompute = recompute;
    const torch::NoGradGuard no_grad;
    const at::Tensor y = checkpoint(options, f, x);
    EXPECT_TRUE(same_bits(y, x.exp().sin()));
    EXPECT_FALSE(y.requires_grad());
  }
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace encore::test
