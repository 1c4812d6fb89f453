// State around a computation: random generators, running statistics, autocast, grad modes, layouts.
#include "support/oracle.h"
#include "tape/compat.h"

namespace encore::test {
namespace {

using State = EveryMode;

TEST_P(State, DropoutDrawsTheSameNumbers) {
  expect_same(
      [] {
        return Tensors{leaf({16, 16})};
      },
      [](const Tensors& x) {
        return Tensors{torch::dropout(torch::dropout(x[0].sin(), 0.5, true).exp(), 0.3, true) + torch::randn({16, 16})};
      });
}

TEST_P(State, EveryRandomOpDrawsTheSameNumbers) {
  expect_same(
      [] {
        return Tensors{leaf({8, 8})};
      },
      [](const Tensors& x) {
        at::Tensor noise = torch::empty({8, 8});
        Tensors out;
        out.push_back(x[0] * noise.normal_());
        out.push_back(x[0] * torch::rand_like(x[0]));
        out.push_back(x[0] * torch::randn({8, 8}));
        out.push_back(x[0] * torch::bernoulli(torch::full({8, 8}, 0.4)));
        out.push_back(x[0] * torch::randint(0, 9, {8, 8}).to(torch::kFloat));
        out.push_back(x[0].index_select(0, torch::randperm(8)).exp().sin());
        out.push_back(x[0] * torch::normal(0.0, 1.0, {8, 8}) * torch::empty({8, 8}).exponential_());
        out.push_back(x[0].exp() * torch::multinomial(torch::ones({8, 8}), 8).to(torch::kFloat));
        out.push_back(torch::alpha_dropout(x[0].sin(), 0.2, true).exp());
        out.push_back(torch::feature_dropout(x[0].sin().view({2, 4, 8}), 0.4, true).exp());
        return out;
      });
}

TEST_P(State, RandomisedLeakyRelu) {
  expect_same(
      [] {
        return Tensors{leaf({8, 8})};
      },
      [](const Tensors& x) {
        const at::Tensor y = torch::rrelu(x[0].sin(), 0.1, 0.4, /*training=*/true);
        at::Tensor z = x[0].cos();
        torch::rrelu_(z, 0.2, 0.3, /*training=*/true);
        return Tensors{y.exp(), z.exp(), torch::rrelu(x[0].sin(), 0.1, 0.4, /*training=*/false).exp()};
      });
}

TEST_P(State, GeneratorsOfTheUser) {
  expect_same(
      [] {
        return Tensors{leaf({8, 8})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        at::Generator generator = at::detail::createCPUGenerator(11);
        const auto f = [generator](const Tensors& in) {
          const at::Tensor noise = torch::empty({8, 8}).normal_(0, 1, generator);
          return Tensors{in[0] * noise * torch::rand({8, 8}, generator) * torch::rand({8, 8})};
        };
        backward_of_sum(apply(mode, f, x), x, outcome);
        outcome.add("the user's generator", generator.get_state());
        return outcome;
      });
}

TEST_P(State, SeedingInsideTheFunction) {
  expect_same(
      [] {
        return Tensors{leaf({8, 8})};
      },
      [](const Tensors& x) {
        const at::Tensor y = torch::dropout(x[0].sin(), 0.5, true);
        torch::manual_seed(99);
        return Tensors{torch::dropout(y.exp(), 0.5, true).exp()};
      });
}

TEST_P(State, RandomNumbersDrawnBetweenForwardAndBackwardAreTheCallers) {
  expect_same(
      [] {
        return Tensors{leaf({8, 8})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const auto f = [](const Tensors& in) { return Tensors{torch::dropout(in[0].sin(), 0.5, true).exp().sin()}; };
        const Tensors y = apply(mode, f, x);
        outcome.add("between", torch::randn({3}));
        backward_of_sum(y, x, outcome);
        outcome.add("after", torch::randn({3}));
        return outcome;
      });
}

TEST_P(State, RunningStatisticsChangeOnce) {
  expect_same(
      [] {
        return Tensors{leaf({6, 4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        torch::nn::BatchNorm1d norm(4);
        const auto f = [norm](const Tensors& in) mutable {
          return Tensors{norm->forward(norm->forward(in[0].sin()).exp()).tanh().exp()};
        };
        Tensors leaves = norm->parameters();
        leaves.push_back(x[0]);
        backward_of_sum(apply(mode, f, x), leaves, outcome);
        for (const auto& buffer : norm->named_buffers()) {
          outcome.add(buffer.key(), buffer.value());
        }
        EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 2);
        return outcome;
      });
}

TEST_P(State, NormsInTrainingAndEvaluation) {
  expect_same(
      [] {
        return Tensors{leaf({4, 3, 5, 5})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        torch::nn::BatchNorm2d norm(3);
        torch::nn::InstanceNorm2d instance(torch::nn::InstanceNorm2dOptions(3).affine(true).track_running_stats(true));
        torch::nn::GroupNorm group(3, 3);
        Tensors leaves = {x[0]};
        for (const bool training : {true, false, true}) {
          norm->train(training);
          instance->train(training);
          const auto f = [=](const Tensors& in) mutable {
            return Tensors{group->forward(instance->forward(norm->forward(in[0].sin()).exp()).tanh()).exp()};
          };
          backward_of_sum(apply(mode, f, x), leaves, outcome);
        }
        const std::vector<std::shared_ptr<torch::nn::Module>> modules = {norm.ptr(), instance.ptr()};
        for (const auto& module : modules) {
          for (const auto& buffer : module->named_buffers()) {
            outcome.add(buffer.key(), buffer.value());
          }
        }
        return outcome;
      });
}

TEST_P(State, StatisticsThatLiveOnlyInsideTheFunction) {
  expect_same(
      [] {
        return Tensors{leaf({6, 4}), torch::randn({4})};
      },
      [](const Tensors& x) {
        const at::Tensor mean = x[1].exp();
        const at::Tensor variance = x[1].abs() + 1;
        const at::Tensor y =
            torch::batch_norm(x[0].sin(), {}, {}, x[1].sin(), x[1].cos().abs() + 1, false, 0.1, 1e-5, false);
        const at::Tensor z = torch::batch_norm(y.exp(), {}, {}, mean, variance, true, 0.1, 1e-5, false);
        return Tensors{z.exp() * mean, (z * variance).sin()};
      });
}

TEST_P(State, StatisticsOfAnOuterCheckpointUpdatedByAnInnerOne) {
  expect_same(
      [] {
        return Tensors{leaf({6, 4}), torch::randn({4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const auto outer = [&mode](const Tensors& in) {
          const at::Tensor mean = in[1].exp();
          const at::Tensor variance = in[1].abs() + 1;
          const auto inner = [mean, variance](const Tensors& a) {
            const at::Tensor y = torch::batch_norm(a[0].sin(), {}, {}, mean, variance, true, 0.1, 1e-5, false);
            return Tensors{y.exp() * mean, (y * variance).sin()};
          };
          return apply(mode, inner, {in[0]});
        };
        backward_of_sum(apply(mode, outer, x), {x[0]}, outcome);
        return outcome;
      });
}

/// The op that updates them runs again, and so does one that reads them as they were afterwards.
TEST_P(State, StatisticsFromOutsideReadAfterTheirUpdate) {
  expect_same(
      [] {
        return Tensors{leaf({6, 4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const at::Tensor mean = torch::zeros({4});
        const at::Tensor variance = torch::ones({4});
        const auto f = [=](const Tensors& in) {
          const at::Tensor y = torch::batch_norm(in[0].sin(), {}, {}, mean, variance, true, 0.1, 1e-5, false);
          const at::Tensor z =
              torch::batch_norm(in[0].cos(), {}, {}, mean.clone(), variance.clone(), false, 0.1, 1e-5, false);
          return Tensors{y.exp(), z.tanh()};
        };
        backward_of_sum(apply(mode, f, x), x, outcome);
        outcome.add("mean", mean);
        outcome.add("variance", variance);
        return outcome;
      });
}

struct Autocast : compat::AutocastCpu {
  Autocast() : AutocastCpu(true, at::kBFloat16) {}
};

TEST_P(State, AutocastInsideTheFunction) {
  expect_same(
      [] {
        return Tensors{leaf({4, 8}), leaf({8, 8})};
      },
      [](const Tensors& x) {
        const Autocast autocast;
        return Tensors{torch::softmax(x[0].mm(x[1]).relu().mm(x[1]).tanh().matmul(x[1]), 1)};
      });
}

TEST_P(State, AutocastAroundTheFunctionButNotAroundBackward) {
  expect_same(
      [] {
        return Tensors{leaf({4, 8}), leaf({8, 8})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        Tensors y;
        {
          const Autocast autocast;
          const auto f = [](const Tensors& in) { return Tensors{in[0].mm(in[1]).relu().mm(in[1]).tanh()}; };
          y = apply(mode, f, {apply(mode, f, x)[0], x[1]});
        }
        backward_of_sum(y, x, outcome);
        EXPECT_FALSE(compat::autocast_on_cpu());
        return outcome;
      });
}

TEST_P(State, AutocastAroundBackwardButNotAroundTheFunction) {
  expect_same(
      [] {
        return Tensors{leaf({4, 8}), leaf({8, 8})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const auto f = [](const Tensors& in) { return Tensors{in[0].mm(in[1]).relu().mm(in[1]).tanh()}; };
        const Tensors y = apply(mode, f, x);
        const Autocast autocast;
        backward_of_sum(y, x, outcome);
        EXPECT_TRUE(compat::autocast_on_cpu());
        return outcome;
      });
}

TEST_P(State, AutocastsWeightCacheServesSeveralCheckpoints) {
  expect_same(
      [] {
        return Tensors{leaf({4, 8}), leaf({8, 8})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const at::Tensor weight = x[1];
        const auto f = [weight](const Tensors& in) { return Tensors{in[0].mm(weight).relu().mm(weight).tanh()}; };
        const Autocast autocast;
        const at::Tensor warm = x[0].mm(weight);  // fills the cache outside of every checkpoint
        const Tensors y = apply(mode, f, apply(mode, f, apply(mode, f, {x[0]})));
        backward_of_sum({y[0], warm}, x, outcome);
        return outcome;
      });
}

TEST_P(State, NoGradAndInferenceModeInsideTheFunction) {
  expect_same(
      [] {
        return Tensors{leaf({4, 8}), leaf({4, 8})};
      },
      [](const Tensors& x) {
        at::Tensor scale;
        at::Tensor frozen;
        {
          const torch::NoGradGuard no_grad;
          scale = x[0].abs().max() + x[1].sin().mean();
        }
        {
          const c10::InferenceMode inference;
          frozen = x[1].exp() * 2;
        }
        const at::Tensor y = (x[0] / scale).exp();
        const at::Tensor usable = frozen.clone();
        return Tensors{y * usable.sin(), y.sin() * x[1]};
      });
}

TEST_P(State, BackwardUnderNoGradMode) {
  expect_same(
      [] {
        return Tensors{leaf({4, 8})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const auto f = [](const Tensors& in) { return Tensors{in[0].exp().sin().exp()}; };
        const at::Tensor loss = apply(mode, f, x)[0].sum();
        const torch::NoGradGuard no_grad;
        loss.backward();
        outcome.add("gradient", x[0].grad());
        EXPECT_FALSE(at::GradMode::is_enabled());
        return outcome;
      });
}

ENCORE_IN_EVERY_MODE(State);

TEST(PreserveRngState, OffKeepsWhatRandomOpsMadeAndDropsTheRest) {
  const at::Tensor x = leaf({64, 64});
  const auto f = [](const at::Tensor& in) { return torch::dropout(in.sin().exp(), 0.5, true).exp().sum(); };
  CheckpointOptions options;
  options.preserve_rng_state = false;
  torch::manual_seed(5);
  const at::Tensor expected = torch::autograd::grad({f(x)}, {x})[0];
  Scope scope;
  torch::manual_seed(5);
  const at::Tensor y = checkpoint(options, f, x);
  const at::Tensor before = torch::randn({2});
  const at::Tensor actual = torch::autograd::grad({y}, {x})[0];
  EXPECT_TRUE(same_bits(expected, actual));
  const std::string dump = scope.dump();
  EXPECT_NE(dump.find("aten::bernoulli_"), std::string::npos);
  EXPECT_NE(dump.find("random opaque"), std::string::npos) << "the mask can't be drawn again, so it is kept";
  EXPECT_GT(scope.stats().values_dropped, 0);
  EXPECT_GT(scope.stats().ops_replayed, 0);
}

TEST(PreserveRngState, OffRefusesAFunctionThatDrawsWithRerun) {
  const at::Tensor x = leaf({4});
  CheckpointOptions options;
  options.name = "noisy";
  options.recompute = Recompute::kRerun;
  options.preserve_rng_state = false;
  const std::string message = message_of<InvalidArgument>([&] {
    checkpoint(
        options, [](const at::Tensor& in) { return torch::dropout(in, 0.5, true); }, x);
  });
  EXPECT_NE(message.find("noisy"), std::string::npos) << message;
  EXPECT_NE(message.find("preserve_rng_state"), std::string::npos) << message;
  EXPECT_TRUE(checkpoint(
                  options, [](const at::Tensor& in) { return in.exp(); }, x)
                  .defined());
}

}  // namespace
}  // namespace encore::test
