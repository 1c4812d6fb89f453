// Several threads, each with its own scopes; backward on another thread; a module shared by threads.
#include <thread>

#include "support/oracle.h"

namespace encore::test {
namespace {

class Threads : public ::testing::TestWithParam<Recompute> {
 protected:
  CheckpointOptions options() const {
    CheckpointOptions options;
    options.recompute = GetParam();
    return options;
  }
};

at::Tensor model(const at::Tensor& x, const at::Tensor& weight) {
  return x.mm(weight).tanh().sigmoid().mm(weight).exp();
}

TEST_P(Threads, EachHasItsOwnScopes) {
  constexpr int kThreads = 4;
  const at::Tensor weight = torch::randn({8, 8});
  std::vector<at::Tensor> inputs;
  for (int i = 0; i < kThreads; ++i) {
    inputs.push_back(leaf({8, 8}));
  }
  const int64_t live = live_tensor_bytes();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const at::Tensor x = inputs[static_cast<size_t>(i)];
      const at::Tensor expected = torch::autograd::grad({model(x, weight).sum()}, {x})[0];
      for (int round = 0; round < 20; ++round) {
        Scope scope(round % 2 == 0 ? keep_all() : drop_all());
        const at::Tensor y = checkpoint(options(), model, checkpoint(options(), model, x, weight).tanh(), weight);
        const at::Tensor z = checkpoint(options(), model, x, weight);
        EXPECT_TRUE(same_bits(expected, torch::autograd::grad({z.sum()}, {x})[0]));
        EXPECT_TRUE(torch::autograd::grad({y.sum()}, {x})[0].defined());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(live_tensor_bytes(), live);
}

TEST_P(Threads, RandomOpsOfSeveralThreadsAreReplayedExactly) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this] {
      // The generator is shared, so the plain run can't be the oracle: y = x * mask has the gradient y / x.
      // A function that is called again can't have its numbers back if another thread drew between two of its ops.
      for (int round = 0; round < 20; ++round) {
        const at::Tensor x = torch::full({64}, 2.0).requires_grad_();
        const auto f = [](const at::Tensor& in) {
          return in * torch::dropout(torch::dropout(torch::ones({64}), 0.5, true), 0.5, true);
        };
        const at::Tensor y = checkpoint(options(), f, x);
        try {
          EXPECT_TRUE(same_bits(torch::autograd::grad({y.sum()}, {x})[0], y.detach() / 2));
        } catch (const DeterminismError& error) {
          EXPECT_EQ(GetParam(), Recompute::kRerun);
          EXPECT_NE(std::string(error.what()).find("Another thread drew"), std::string::npos) << error.what();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const at::Tensor x = torch::full({64}, 2.0).requires_grad_();
  const at::Tensor y = checkpoint(
      options(), [](const at::Tensor& in) { return in * torch::dropout(torch::ones({64}), 0.5, true); }, x);
  EXPECT_TRUE(same_bits(torch::autograd::grad({y.sum()}, {x})[0], y.detach() / 2));
}

TEST_P(Threads, BackwardOnAnotherThread) {
  const at::Tensor x = leaf({8, 8});
  const at::Tensor weight = leaf({8, 8});
  const Tensors expected = torch::autograd::grad({model(x, weight).sum()}, {x, weight});
  for (const bool scope_open : {false, true}) {
    auto scope = std::make_unique<Scope>(drop_all());
    const at::Tensor y = checkpoint(options(), model, x, weight).sum();
    if (!scope_open) {
      scope.reset();
    }
    Tensors actual;
    std::thread([&] { actual = torch::autograd::grad({y}, {x, weight}); }).join();
    EXPECT_TRUE(same_bits(expected[0], actual[0]));
    EXPECT_TRUE(same_bits(expected[1], actual[1]));
  }
}

TEST_P(Threads, BackwardWhileTheScopeStillRecords) {
  const at::Tensor x = leaf({8, 8});
  const at::Tensor weight = leaf({8, 8});
  const Tensors expected = torch::autograd::grad({model(x, weight).sum()}, {x, weight});
  const Scope scope(drop_all());
  const at::Tensor y = checkpoint(options(), model, x, weight).sum();
  std::thread other([&] {
    for (int round = 0; round < 10; ++round) {
      const Tensors actual = torch::autograd::grad({y}, {x, weight}, {}, /*retain_graph=*/true);
      EXPECT_TRUE(same_bits(expected[0], actual[0]));
      EXPECT_TRUE(same_bits(expected[1], actual[1]));
    }
  });
  for (int round = 0; round < 200; ++round) {
    const at::Tensor z = checkpoint(
        options(), [](const at::Tensor& in) { return torch::rrelu(in, 0.1, 0.3, /*training=*/true).exp(); }, x);
  }
  other.join();
}

TEST_P(Threads, OneGraphOnSeveralThreadsAtOnce) {
  const at::Tensor x = leaf({8, 8});
  const at::Tensor weight = leaf({8, 8});
  const Tensors expected = torch::autograd::grad({model(x, weight).sum()}, {x, weight});
  const at::Tensor y = checkpoint(options(), model, x, weight).sum();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        const Tensors actual = torch::autograd::grad({y}, {x, weight}, {}, /*retain_graph=*/true);
        EXPECT_TRUE(same_bits(expected[0], actual[0]));
        EXPECT_TRUE(same_bits(expected[1], actual[1]));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_P(Threads, AModuleSharedByThreads) {
  torch::nn::Sequential module(torch::nn::Linear(8, 8), torch::nn::Tanh(), torch::nn::Linear(8, 8),
                               torch::nn::Sigmoid());
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> expected;
  for (int i = 0; i < 4; ++i) {
    inputs.push_back(leaf({4, 8}));
    expected.push_back(torch::autograd::grad({module->forward(inputs.back()).sum()}, module->parameters())[0]);
  }
  const auto checkpointed = checkpoint(options(), module);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) {
        const at::Tensor loss = checkpointed(inputs[i]).sum();
        EXPECT_TRUE(same_bits(expected[i], torch::autograd::grad({loss}, module->parameters())[0]));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Threads, ::testing::Values(Recompute::kReplay, Recompute::kRerun),
                         [](const auto& test) { return test.param == Recompute::kReplay ? "Replay" : "Rerun"; });

}  // namespace
}  // namespace encore::test
