// Measuring layers leaves no trace: the run after it is the plain run, bit for bit.
#include <ATen/CPUGeneratorImpl.h>

#include "support/oracle.h"

namespace encore::test {
namespace {

using torch::nn::BatchNorm1d;
using torch::nn::Linear;
using torch::nn::Sequential;

/// Draws from a generator of its own.
struct OwnDropoutImpl : torch::nn::Module {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(5);
  at::Tensor forward(const at::Tensor& x) { return x * at::bernoulli(torch::full_like(x.detach(), 0.5), generator); }
};
TORCH_MODULE(OwnDropout);

/// Counts in a tensor that nobody registered, and through a raw pointer in a buffer.
struct CounterImpl : torch::nn::Module {
  at::Tensor seen = torch::zeros({8});
  at::Tensor raw = register_buffer("raw", torch::zeros({1}));
  at::Tensor forward(const at::Tensor& x) {
    seen.add_(x.detach().mean(0));
    *raw.data_ptr<float>() += 1;
    return x * seen.clone();
  }
};
TORCH_MODULE(Counter);

enum class How { kPlain, kPlanned, kTime, kBytes };
constexpr How kMeasured[] = {How::kPlanned, How::kTime, How::kBytes};

at::Tensor forward(How how, Sequential& modules, const at::Tensor& input) {
  if (how == How::kPlain) {
    return modules->forward(input);
  }
  SequentialOptions options;
  options.balance = how == How::kTime ? Balance::kTime : Balance::kBytes;
  CheckpointedSequential checkpointed(modules, how == How::kPlanned ? 0 : 2, options);
  return checkpointed->forward(input);
}

/// Runs fresh modules on an input that the first may change in place, and compares everything that is left behind.
void expect_no_trace(const std::function<Sequential()>& make) {
  const auto run = [&](How how, bool with_history) {
    torch::manual_seed(3);
    Sequential modules = make();
    const at::Tensor x = leaf({4, 8});
    const at::Tensor input = with_history ? x * 1 : x.detach().clone();
    const at::Tensor output = forward(how, modules, input);
    output.sum().backward();
    Outcome outcome;
    outcome.add("output", output);
    outcome.add("input", input);
    if (with_history) {
      outcome.add("input gradient", x.grad());
    }
    for (const auto& parameter : modules->named_parameters()) {
      outcome.add(parameter.key(), parameter.value().grad());
    }
    for (const auto& buffer : modules->named_buffers()) {
      outcome.add(buffer.key(), buffer.value());
    }
    outcome.generator = at::detail::getDefaultCPUGenerator().get_state();
    return outcome;
  };
  for (const bool with_history : {true, false}) {
    const Outcome plain = run(How::kPlain, with_history);
    for (const How how : kMeasured) {
      EXPECT_EQ(difference(plain, run(how, with_history)), "") << static_cast<int>(how) << with_history;
    }
  }
}

TEST(Measuring, AFirstModuleThatWorksInPlace) {
  expect_no_trace([] {
    return Sequential(torch::nn::Functional([](at::Tensor x) { return x.mul_(2); }), Linear(8, 8), torch::nn::Tanh(),
                      Linear(8, 8));
  });
  expect_no_trace([] {
    return Sequential(torch::nn::Dropout(torch::nn::DropoutOptions(0.5).inplace(true)), Linear(8, 8), Linear(8, 8));
  });
}

TEST(Measuring, AModuleInTheMiddleThatWorksInPlace) {
  expect_no_trace([] { return Sequential(Linear(8, 8), torch::nn::ReLU(torch::nn::ReLUOptions(true)), Linear(8, 8)); });
}

TEST(Measuring, AnInputThatIsALeafIsRefusedInPlaceAsWithoutEncore) {
  Sequential modules(torch::nn::ReLU(torch::nn::ReLUOptions(true)), Linear(8, 8));
  const at::Tensor x = leaf({4, 8});
  CheckpointedSequential checkpointed(modules);
  EXPECT_THROW(modules->forward(x), c10::Error);
  EXPECT_THROW(checkpointed->forward(x), c10::Error);
}

TEST(Measuring, AModuleWithAGeneratorOfItsOwn) {
  expect_no_trace([] { return Sequential(Linear(8, 8), OwnDropout(), Linear(8, 8), torch::nn::Tanh()); });
}

TEST(Measuring, StateThatIsNoBufferAndRawWrites) {
  expect_no_trace([] { return Sequential(Linear(8, 8), Counter(), Linear(8, 8), torch::nn::Tanh()); });
}

TEST(Measuring, VectorsOfModulesWithBatchNorm) {
  const auto run = [](bool measured) {
    torch::manual_seed(3);
    std::vector<Sequential> modules;
    for (int i = 0; i < 4; ++i) {
      modules.emplace_back(Linear(8, 8), BatchNorm1d(8), torch::nn::Tanh());
    }
    const at::Tensor x = leaf({4, 8});
    at::Tensor y = x;
    if (measured) {
      SequentialOptions options;
      options.balance = Balance::kBytes;
      y = checkpoint_sequential(options, modules, 2, x);
    } else {
      for (Sequential& each : modules) {
        y = each->forward(y);
      }
    }
    y.sum().backward();
    Outcome outcome;
    outcome.add("output", y);
    outcome.add("input gradient", x.grad());
    for (size_t i = 0; i < modules.size(); ++i) {
      for (const auto& buffer : modules[i]->named_buffers()) {
        outcome.add(std::to_string(i) + '.' + buffer.key(), buffer.value());
      }
    }
    return outcome;
  };
  EXPECT_EQ(difference(run(false), run(true)), "");
}

TEST(Measuring, AnotherShapeBeforeTheFirstOnesBackward) {
  const auto run = [](bool measured) {
    torch::manual_seed(3);
    Sequential modules(Linear(8, 8), BatchNorm1d(8), torch::nn::Tanh(), Linear(8, 8), BatchNorm1d(8));
    CheckpointedSequential checkpointed(modules);
    const at::Tensor a = leaf({4, 8});
    const at::Tensor b = leaf({6, 8});
    const auto forward = [&](const at::Tensor& x) { return measured ? checkpointed->forward(x) : modules->forward(x); };
    const at::Tensor first = forward(a);
    const at::Tensor second = forward(b);
    (first.pow(2).sum() + second.pow(2).sum()).backward();
    Outcome outcome;
    outcome.add("first", first);
    outcome.add("second", second);
    outcome.add("first gradient", a.grad());
    outcome.add("second gradient", b.grad());
    for (const auto& parameter : modules->named_parameters()) {
      outcome.add(parameter.key(), parameter.value().grad());
    }
    for (const auto& buffer : modules->named_buffers()) {
      outcome.add(buffer.key(), buffer.value());
    }
    return outcome;
  };
  EXPECT_EQ(difference(run(false), run(true)), "");
}

TEST(Measuring, InsideAScopeThatNeedsTheStateBefore) {
  const auto run = [](bool measured) {
    torch::manual_seed(3);
    at::Tensor mean = torch::zeros({8});
    const auto follow = [&](const at::Tensor& x) {
      mean.mul_(0.9).add_(x.detach().mean(0));
      return x * mean.clone();
    };
    Sequential modules(Linear(8, 8), torch::nn::Functional(follow), Linear(8, 8));
    CheckpointedSequential checkpointed(modules);
    const at::Tensor a = leaf({4, 8});
    const at::Tensor b = leaf({6, 8});
    const auto forward = [&](const at::Tensor& x) { return measured ? checkpointed->forward(x) : modules->forward(x); };
    std::optional<Scope> scope;
    if (measured) {
      scope.emplace(drop_all());
    }
    Outcome outcome;
    backward_of_sum({forward(a), forward(b)}, {a, b}, outcome);
    outcome.add("mean", mean);
    return outcome;
  };
  EXPECT_EQ(difference(run(false), run(true)), "");
}

TEST(Measuring, ALayerThatThrowsLeavesNoTraceEither) {
  BatchNorm1d norm(8);
  const OwnDropout own;
  Sequential modules(norm, own, torch::nn::Functional([](const at::Tensor& x) -> at::Tensor {
                       throw std::runtime_error("mine");
                       return x;
                     }));
  CheckpointedSequential checkpointed(modules);
  const at::Tensor state = own->generator.get_state();
  EXPECT_EQ(message_of<std::runtime_error>([&] { checkpointed->segment_sizes(torch::randn({4, 8})); }), "mine");
  EXPECT_TRUE(same_bits(norm->running_mean, torch::zeros({8})));
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 0);
  EXPECT_TRUE(same_bits(own->generator.get_state(), state));
}

TEST(Measuring, WhatIsCopiedToBePutBackIsNoCostOfTheLayer) {
  // A layer that updates a large table keeps nothing of it for backward.
  const at::Tensor table = torch::zeros({1 << 16});
  const at::Tensor x = torch::randn({64}).requires_grad_();
  std::vector<std::function<at::Tensor(const at::Tensor&)>> layers(16, [](const at::Tensor& in) { return in.sin(); });
  layers[0] = [&](const at::Tensor& in) {
    table.add_(1);
    return in.sin();
  };
  live_tensor_bytes();
  SequentialOptions options;
  options.balance = Balance::kBytes;
  const CheckpointProfiler profiler;
  checkpoint_sequential(options, layers, 2, x).sum().backward();
  EXPECT_EQ(profiler.report().ops_replayed, 7) << "of eight layers, whose first has the kept input";
  EXPECT_EQ(table[0].item<float>(), 1);
}

}  // namespace
}  // namespace encore::test
