// Functions that are called again: what they may do, and what is refused because it could not be the same twice.
#include "support/oracle.h"

namespace encore::test {
namespace {

CheckpointOptions rerun() {
  CheckpointOptions options;
  options.name = "block";
  options.recompute = Recompute::kRerun;
  return options;
}

TEST(Rerun, AModuleThatWentToEvaluationIsAnError) {
  for (const bool early_stop : {false, true}) {
    CheckpointOptions options = rerun();
    options.early_stop = early_stop;
    const at::Tensor x = leaf({64});
    const at::Tensor weight = leaf({64});
    torch::nn::Dropout dropout(0.5);
    const at::Tensor y = checkpoint(
        options, [=](const at::Tensor& in) mutable { return dropout->forward(in) * weight; }, x);
    dropout->eval();
    const std::string message = message_of<DeterminismError>([&] { y.sum().backward(); });
    EXPECT_NE(message.find("block"), std::string::npos) << message;
    EXPECT_FALSE(weight.grad().defined());
  }
}

TEST(Rerun, ACapturedTensorThatWasReplacedIsAnError) {
  const at::Tensor x = leaf({4});
  at::Tensor weight = torch::ones({4});
  const at::Tensor y = checkpoint(
      rerun(), [&weight](const at::Tensor& in) { return (in * weight).sin(); }, x);
  weight = weight * 3;
  // The second time nothing is left of the first call that was not the same.
  for (int i = 0; i < 2; ++i) {
    const std::string message = message_of<DeterminismError>([&] { y.sum().backward(); });
    EXPECT_NE(message.find("Float[4]"), std::string::npos) << message;
    EXPECT_FALSE(x.grad().defined());
  }
}

TEST(Rerun, StateThatTheFunctionReplacesIsAnError) {
  const at::Tensor x = leaf({4});
  at::Tensor average = torch::ones({4});
  const at::Tensor y = checkpoint(
      rerun(),
      [&average](const at::Tensor& in) {
        average = average * 0.9 + in.detach() * 0.1;
        return (in * average).sin();
      },
      x);
  const std::string message = message_of<DeterminismError>([&] { y.sum().backward(); });
  EXPECT_NE(message.find("must stay in place"), std::string::npos) << message;
  EXPECT_FALSE(x.grad().defined());
}

TEST(Rerun, SwappedBuffersAreAnError) {
  const at::Tensor x = leaf({4});
  at::Tensor a = torch::ones({4});
  at::Tensor b = torch::full({4}, 2.0);
  const at::Tensor y = checkpoint(
      rerun(),
      [&](const at::Tensor& in) {
        std::swap(a, b);
        return (in * a).sin() + (in * b).cos();
      },
      x);
  const std::string message = message_of<DeterminismError>([&] { y.sum().backward(); });
  EXPECT_NE(message.find("must stay in place"), std::string::npos) << message;
  EXPECT_FALSE(x.grad().defined());
}

TEST(Rerun, ATensorMadeOnFirstUseMayStay) {
  const at::Tensor x = leaf({4});
  const at::Tensor weight = leaf({4});
  at::Tensor mask;
  const auto f = [&](const at::Tensor& in) {
    if (!mask.defined()) {
      mask = torch::ones({4}).cumsum(0);
    }
    return (in * mask).sin() * weight;
  };
  const at::Tensor expected = torch::autograd::grad({f(x).sum()}, {x})[0];
  mask = at::Tensor();
  EXPECT_TRUE(same_bits(expected, torch::autograd::grad({checkpoint(rerun(), f, x).sum()}, {x})[0]));
}

TEST(Rerun, AGeneratorMadeInsideDrawsTheSame) {
  const at::Tensor x = leaf({64});
  const auto f = [](const at::Tensor& in) {
    at::Generator own = at::detail::createCPUGenerator(7);
    return (in * torch::zeros({64}).bernoulli_(0.5, own)).exp();
  };
  const at::Tensor expected = torch::autograd::grad({f(x).sum()}, {x})[0];
  EXPECT_TRUE(same_bits(expected, torch::autograd::grad({checkpoint(rerun(), f, x).sum()}, {x})[0]));
}

TEST(Rerun, ACapturedTensorWithAHistoryMayNotBeChangedInPlace) {
  const at::Tensor x = leaf({4});
  const at::Tensor captured = x * 3;
  const std::string message = message_of<InvalidArgument>([&] {
    checkpoint(
        rerun(),
        [&captured](const at::Tensor& in) {
          captured.mul_(2);
          return (captured * in).sin();
        },
        x);
  });
  EXPECT_NE(message.find("use kReplay"), std::string::npos) << message;
}

/// A checkpoint in a scope in the function: called again by itself it would find its argument changed already.
TEST(Rerun, ScopesInsideArePartOfTheFunction) {
  const at::Tensor x = leaf({4, 6});
  const auto inner = [](const Tensors& in) -> Tensors {
    in[1].select(0, 0).add_(in[1].select(0, 1));
    return {(in[0].abs() + 0.5).pow(in[1].tanh())};
  };
  const auto run = [&](const Function& f) {
    x.mutable_grad() = at::Tensor();
    f({x * 1})[0].sum().backward();
    return x.grad().clone();
  };
  const at::Tensor plain = run([&](const Tensors& in) { return inner({in[0], in[0] * in[0]}); });
  for (const Recompute recompute : {Recompute::kRerun, Recompute::kReplay}) {
    for (const Policy& policy : {keep_all(), drop_all()}) {
      CheckpointOptions inside;
      inside.recompute = recompute;
      CheckpointOptions outside;
      outside.recompute = Recompute::kRerun;
      const auto f = [&](const Tensors& in) -> Tensors {
        const Scope scope(policy);
        return checkpoint(inside, inner, Tensors{in[0], in[0] * in[0]});
      };
      EXPECT_TRUE(same_bits(run([&](const Tensors& in) { return checkpoint(outside, f, in); }), plain));
    }
  }
}

TEST(Rerun, NoexceptFunctionsRunToTheirEnd) {
  const at::Tensor x = leaf({4});
  const auto f = [](const at::Tensor& in) noexcept { return (in * 2).sin().exp() + 1; };
  const at::Tensor expected = torch::autograd::grad({f(x).sum()}, {x})[0];
  EXPECT_TRUE(same_bits(expected, torch::autograd::grad({checkpoint(rerun(), f, x).sum()}, {x})[0]));
}

struct SavesItsResult : torch::autograd::Function<SavesItsResult> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& in) {
    at::Tensor result = in.exp();
    context->save_for_backward({result});
    return result;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * context->get_saved_variables()[0]};
  }
};

TEST(Rerun, AFunctionMayDifferentiateItsOwnInputs) {
  const at::Tensor x = leaf({4, 3});
  const at::Tensor w = leaf({4, 3});
  const auto f = [](const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor q = a.sin() * b.exp();
    const auto gradients = torch::autograd::grad({q.sum()}, {a, b}, {}, true, true);
    return gradients[0] * gradients[1];
  };
  const Tensors expected = torch::autograd::grad({f(x * 1, w * 1).sum()}, {x, w});
  const Tensors actual = torch::autograd::grad({checkpoint(rerun(), f, x * 1, w * 1).sum()}, {x, w});
  EXPECT_TRUE(same_bits(actual[0], expected[0]));
  EXPECT_TRUE(same_bits(actual[1], expected[1]));
}

TEST(Rerun, ACustomFunctionThatSavesItsResultLeavesNothingBehind) {
  const at::Tensor x = leaf({1000});
  const auto step = [&] {
    checkpoint(
        rerun(), [](const at::Tensor& in) { return SavesItsResult::apply(in * 2); }, x)
        .sum()
        .backward();
    x.mutable_grad() = at::Tensor();
  };
  step();
  const int64_t live = live_tensor_bytes();
  step();
  EXPECT_EQ(live_tensor_bytes(), live);
}

/// The function updates a buffer each time; for what has saved the buffer since, nothing has changed.
TEST(Rerun, ABufferThatItUpdatesHasTheVersionOfTheFirstCallAfterwards) {
  const auto gradient = [](bool checkpointed) {
    torch::manual_seed(3);
    const at::Tensor x = leaf({4, 6});
    const at::Tensor mean = torch::zeros({6});
    const at::Tensor variance = torch::ones({6});
    const auto f = [&](const at::Tensor& in) {
      return at::instance_norm(in.reshape({2, 6, 2}), {}, {}, mean, variance, true, 0.1, 1e-5, false).reshape({4, 6});
    };
    CheckpointOptions options;
    options.recompute = Recompute::kRerun;
    const at::Tensor h = checkpointed ? checkpoint(options, f, x) : f(x);
    const at::Tensor y = at::batch_norm(h, {}, {}, mean, variance, /*training=*/true, 0.1, 1e-5, false).exp().sum();
    y.backward({}, /*retain_graph=*/true);
    y.backward();
    return Tensors{x.grad(), mean, variance};
  };
  const Tensors expected = gradient(false);
  const Tensors actual = gradient(true);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same_bits(expected[i], actual[i])) << i;
  }
}

/// A change in place gives the tensor a history, and with it all its views: also when the function is called again.
TEST(Rerun, ArgumentsMayBeViewsOfOneAnother) {
  const auto gradient = [](bool of_an_argument, bool checkpointed) {
    torch::manual_seed(4);
    const at::Tensor x = leaf({4, 6});
    const at::Tensor whole = torch::rand({4, 6});
    const at::Tensor first = of_an_argument ? whole : whole.narrow(0, 0, 3);
    const at::Tensor second = whole.narrow(0, 1, 3);
    const auto f = [](const at::Tensor& in, const at::Tensor& a, const at::Tensor& b) {
      a.mul_(in.exp().narrow(0, 0, a.size(0)));
      return (b.sin() * b).sum();
    };
    CheckpointOptions options;
    options.recompute = Recompute::kRerun;
    options.determinism_check = DeterminismCheck::kValues;
    (checkpointed ? checkpoint(options, f, x, first, second) : f(x, first, second)).backward();
    return x.grad();
  };
  for (const bool of_an_argument : {true, false}) {
    EXPECT_TRUE(same_bits(gradient(of_an_argument, false), gradient(of_an_argument, true))) << of_an_argument;
  }
}

}  // namespace
}  // namespace encore::test
