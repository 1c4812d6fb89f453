// Bad input gives an error that names what is wrong and says what to do; afterwards everything is as before.
#include "support/custom_ops.h"
#include "support/oracle.h"

namespace encore::test {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class BadInput : public ::testing::TestWithParam<Recompute> {
 protected:
  BadInput() {
    options_.name = "block";
    options_.recompute = GetParam();
    live_ = live_tensor_bytes();
  }

  /// Engine, generator, allocator and scopes are as before, and the next step works.
  void TearDown() override {
    EXPECT_THROW(static_cast<void>(checkpoint(torch::ones({1}))), ScopeError) << "a scope is still open";
    EXPECT_EQ(live_tensor_bytes(), live_);
    const at::Tensor x = leaf({4, 4});
    const auto f = [](const at::Tensor& in) { return torch::dropout(in.sin(), 0.5, true).exp().sin(); };
    torch::manual_seed(1);
    const at::Tensor expected = torch::autograd::grad({f(x).sum()}, {x})[0];
    const at::Tensor expected_next = torch::randn({2});
    torch::manual_seed(1);
    const at::Tensor actual = torch::autograd::grad({checkpoint(options_, f, x).sum()}, {x})[0];
    EXPECT_TRUE(same_bits(expected, actual));
    EXPECT_TRUE(same_bits(expected_next, torch::randn({2})));
  }

  CheckpointOptions options_;
  int64_t live_ = 0;
};

TEST_P(BadInput, NoArgument) {
  const auto f = checkpoint(options_, [] { return torch::ones({2}); });
  const std::string message = message_of<InvalidArgument>([&] { f(); });
  EXPECT_TRUE(has(message, "block") && has(message, "without an argument")) << message;
}

TEST_P(BadInput, EmptyListOfTensors) {
  const auto f = [](const Tensors&) { return torch::ones({2}); };
  const std::string message = message_of<InvalidArgument>([&] { checkpoint(options_, f, Tensors()); });
  EXPECT_TRUE(has(message, "block") && has(message, "no argument holds a tensor")) << message;
}

TEST_P(BadInput, OnlyPlainValues) {
  const auto f = [](double, const std::string&, const std::vector<int64_t>&) { return torch::ones({2}); };
  const std::string message =
      message_of<InvalidArgument>([&] { checkpoint(options_, f, 1.0, std::string("a"), std::vector<int64_t>{1}); });
  EXPECT_TRUE(has(message, "no argument holds a tensor")) << message;
}

TEST_P(BadInput, UndefinedTensors) {
  const at::Tensor x = leaf({2});
  const auto f = [](const at::Tensor& a, const Tensors&) { return a.exp(); };
  const std::string message = message_of<InvalidArgument>([&] {
    checkpoint(options_, f, x, Tensors{x, at::Tensor()});
  });
  EXPECT_TRUE(has(message, "argument 1") && has(message, "undefined")) << message;
}

TEST_P(BadInput, NothingDifferentiableComesBack) {
  const at::Tensor x = leaf({2});
  const auto integers = [](const at::Tensor& a) { return a.exp().argmax(); };
  const auto numbers = [](const at::Tensor& a) { return std::vector<double>{a.exp().sum().item<double>()}; };
  const auto nothing = [](const at::Tensor& a) { static_cast<void>(a.exp()); };
  for (const std::string& message : {message_of<InvalidArgument>([&] { checkpoint(options_, integers, x); }),
                                     message_of<InvalidArgument>([&] { checkpoint(options_, numbers, x); }),
                                     message_of<InvalidArgument>([&] { checkpoint(options_, nothing, x); })}) {
    EXPECT_TRUE(has(message, "block") && has(message, "nothing that can have a gradient")) << message;
  }
}

struct Surprise {
  int code;
};

TEST_P(BadInput, AFunctionThatThrows) {
  const at::Tensor x = leaf({4});
  const auto f = [](const at::Tensor& in) -> at::Tensor {
    const at::Tensor y = torch::dropout(in.exp(), 0.5, true);
    throw Surprise{static_cast<int>(y.size(0))};
  };
  try {
    checkpoint(options_, f, x);
    ADD_FAILURE();
  } catch (const Surprise& surprise) {
    EXPECT_EQ(surprise.code, 4);
  }
}

TEST_P(BadInput, AnOpThatThrowsInForward) {
  const at::Tensor x = leaf({4});
  Scope scope;
  EXPECT_THROW(checkpoint(
                   options_, [](const at::Tensor& in) { return in.exp().mm(in); }, x),
               c10::Error);
  EXPECT_THROW(checkpoint(
                   options_,
                   [](const at::Tensor& in) {
                     at::Tensor y = in * 2;
                     return y.exp().add_(torch::ones({3}));
                   },
                   x),
               c10::Error);
}

TEST_P(BadInput, AnOpThatThrowsWhenRunAgain) {
  const at::Tensor x = leaf({4});
  const auto f = [](const at::Tensor& in) { return in.sin() * custom_ops::call("fails", in.detach().exp()); };
  custom_ops::reset();
  const at::Tensor y = checkpoint(options_, f, x).exp();
  custom_ops::fail_from_now_on();
  const at::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
  const std::string message = message_of<ReplayError>([&] { y.sum().backward(); });
  EXPECT_TRUE(has(message, "encore_test::fails") || GetParam() == Recompute::kRerun) << message;
  EXPECT_TRUE(has(message, "block") && has(message, "told to fail")) << message;
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(same_bits(state, at::detail::getDefaultCPUGenerator().get_state()));
  custom_ops::reset();
}

TEST_P(BadInput, AnOpThatThrowsWhenRunAgainMayBeTriedAgain) {
  const at::Tensor x = leaf({4});
  const auto f = [](const at::Tensor& in) {
    return torch::dropout(in.sin(), 0.5, true) * custom_ops::call("fails", in.detach().exp());
  };
  custom_ops::reset();
  const at::Tensor y = checkpoint(options_, f, x).exp().sum();
  custom_ops::fail_from_now_on();
  EXPECT_THROW(y.backward({}, /*retain_graph=*/true), ReplayError);
  custom_ops::reset();
  y.backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST_P(BadInput, MemoryThatRunsOutDuringReplay) {
  const at::Tensor x = leaf({4096});
  const auto f = [](const at::Tensor& in) {
    at::Tensor y = in.sin() * 2;
    y.narrow(0, 0, 2048).mul_(in.narrow(0, 0, 2048).cos());
    at::Tensor copied = torch::empty({4096});
    copied.copy_(in.detach().exp());
    return (y.exp() * y * copied).sum();
  };
  const at::Tensor expected = torch::autograd::grad({f(x)}, {x})[0];
  const int64_t live = live_tensor_bytes();
  int replays_failed = 0;
  int others_failed = 0;
  for (int allowed = 0;; ++allowed) {
    const at::Tensor y = checkpoint(options_, f, x);
    const custom_ops::LittleMemory little(allowed, /*larger_than=*/1024);
    try {
      y.backward();
    } catch (const ReplayError& error) {
      ++replays_failed;
      EXPECT_TRUE(has(error.what(), "block") && has(error.what(), "memory")) << error.what();
      EXPECT_EQ(others_failed, 0) << "replay comes first, so this failed in replay too";
    } catch (const c10::Error& error) {
      ++others_failed;  // backward's own allocations, as they may fail without Encore
    }
    if (!little.has_failed()) {
      break;
    }
    x.mutable_grad() = at::Tensor();
  }
  EXPECT_GE(replays_failed, 6);
  EXPECT_GT(others_failed, 0);
  EXPECT_TRUE(same_bits(expected, x.grad()));
  x.mutable_grad() = at::Tensor();
  leaf({1}).sum().backward();  // LibTorch's engine lets go of what was queued when a backward failed
  EXPECT_EQ(live_tensor_bytes(), live);
}

INSTANTIATE_TEST_SUITE_P(Modes, BadInput, ::testing::Values(Recompute::kReplay, Recompute::kRerun),
                         [](const auto& test) { return test.param == Recompute::kReplay ? "Replay" : "Rerun"; });

TEST(BadPolicy, EmptyRulesAndNegativeSizesAreRefused) {
  EXPECT_THROW(Policy(Policy::Rule(), Action::kKeep), InvalidArgument);
  EXPECT_THROW(larger_than(-1), InvalidArgument);
}

TEST(BadPolicy, APolicyThatThrowsIsPassedOnAndTheNextStepWorks) {
  const at::Tensor x = leaf({4});
  CheckpointOptions options;
  options.policy = Policy([](const ValueInfo&) -> std::optional<Action> { throw Surprise{7}; }, Action::kKeep);
  const auto f = [](const at::Tensor& in) { return in.sin().exp().sin(); };
  EXPECT_THROW(checkpoint(options, f, x), Surprise);
  EXPECT_THROW(static_cast<void>(checkpoint(x)), ScopeError);
  const at::Tensor expected = torch::autograd::grad({f(x).sum()}, {x})[0];
  EXPECT_TRUE(same_bits(expected, torch::autograd::grad({checkpoint(f, x).sum()}, {x})[0]));
}

}  // namespace
}  // namespace encore::test
