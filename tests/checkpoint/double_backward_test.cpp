// Gradients of gradients, second backwards, partial backwards, backward inside functions, hooks.
#include "support/oracle.h"

namespace encore::test {
namespace {

class Backwards : public EveryMode {
 protected:
  static Tensors two_leaves() { return {leaf({4, 4}), leaf({4, 4})}; }
  static Tensors f(const Tensors& x) { return {(x[0].mm(x[1]).tanh() * x[0].sin()).exp(), x[1].exp().sigmoid()}; }
};

TEST_P(Backwards, SecondAndThirdOrderGradients) {
  expect_same(two_leaves, [](const Mode& mode, Tensors& x) {
    Outcome outcome;
    const Tensors y = apply(mode, f, x);
    Tensors gradients = torch::autograd::grad({y[0].sum() + y[1].sum()}, x, {}, true, true);
    for (int order = 2; order <= 3; ++order) {
      outcome.add("order " + std::to_string(order), gradients[0]);
      const at::Tensor sum = (gradients[0] * gradients[0]).sum() + gradients[1].sum();
      gradients = torch::autograd::grad({sum}, x, {}, true, true);
    }
    outcome.add("third", gradients[0]);
    outcome.add("third", gradients[1]);
    return outcome;
  });
}

TEST_P(Backwards, GradientPenaltyThenBackward) {
  expect_same(two_leaves, [](const Mode& mode, Tensors& x) {
    Outcome outcome;
    const Tensors y = apply(mode, f, x);
    const at::Tensor gradient = torch::autograd::grad({y[0].sum()}, {x[0]}, {}, true, true)[0];
    backward_of_sum({y[0], y[1], gradient.norm()}, x, outcome);
    return outcome;
  });
}

TEST_P(Backwards, CheckpointOfAFunctionThatTakesGradients) {
  expect_same(two_leaves, [](const Mode& mode, Tensors& x) {
    Outcome outcome;
    const auto g = [](const Tensors& in) {
      const at::Tensor y = in[0].sin().mm(in[1]).exp();
      const at::Tensor gradient = torch::autograd::grad({y.sum()}, {in[0]}, {}, true, true)[0];
      return Tensors{gradient.sin() * y};
    };
    backward_of_sum(apply(mode, g, x), x, outcome);
    return outcome;
  });
}

TEST_P(Backwards, RetainGraphAndASecondBackward) {
  expect_same(two_leaves, [](const Mode& mode, Tensors& x) {
    Outcome outcome;
    const Tensors y = apply(mode, f, x);
    const at::Tensor loss = y[0].sum() + y[1].sum();
    loss.backward({}, /*retain_graph=*/true);
    outcome.add("once", x[0].grad());
    loss.backward({}, /*retain_graph=*/true);
    outcome.add("twice", x[0].grad());
    loss.backward();
    outcome.add("three times", x[0].grad());
    outcome.add("three times", x[1].grad());
    return outcome;
  });
}

TEST_P(Backwards, SecondBackwardWithoutRetainGraphIsLibTorchsError) {
  expect_same(two_leaves, [](const Mode& mode, Tensors& x) {
    Outcome outcome;
    const at::Tensor loss = apply(mode, f, x)[0].sum();
    loss.backward();
    EXPECT_THROW(loss.backward(), c10::Error);
    outcome.add("gradient", x[0].grad());
    return outcome;
  });
}

TEST_P(Backwards, GradientsOfChosenInputs) {
  expect_same(two_leaves, [](const Mode& mode, Tensors& x) {
    Outcome outcome;
    const Tensors y = apply(mode, f, x);
    outcome.add("one", torch::autograd::grad({y[0].sum()}, {x[1]}, {}, true)[0]);
    outcome.add("the other", torch::autograd::grad({y[0].sum()}, {x[0]}, {}, true)[0]);
    (y[0].sum() + y[1].sum()).backward({}, false, false, std::vector<at::Tensor>{x[1]});
    outcome.add("backward's", x[1].grad());
    EXPECT_FALSE(x[0].grad().defined());
    return outcome;
  });
}

TEST_P(Backwards, PartialBackwardsOfSeveralOutputs) {
  expect_same(two_leaves, [](const Mode& mode, Tensors& x) {
    Outcome outcome;
    const auto g = [](const Tensors& in) {
      const at::Tensor shared = in[0].sin().exp();
      return Tensors{(shared * in[1]).exp(), shared.cos().exp(), shared};
    };
    const Tensors y = apply(mode, g, x);
    for (const at::Tensor& output : y) {
      output.sum().backward({}, /*retain_graph=*/true);
      outcome.add("gradient", x[0].grad());
    }
    return outcome;
  });
}

TEST_P(Backwards, BackwardInsideTheFunction) {
  expect_same(two_leaves, [](const Mode& mode, Tensors& x) {
    Outcome outcome;
    const at::Tensor inner = torch::ones({4, 4}).requires_grad_();
    inner.mutable_grad() = torch::full({4, 4}, 0.5);
    const auto g = [inner](const Tensors& in) {
      (inner.exp() * in[0].detach().sin()).sum().backward();
      return Tensors{(in[0] * inner.grad().detach()).sin().exp()};
    };
    backward_of_sum(apply(mode, g, x), {x[0]}, outcome);
    outcome.add("the inner gradient", inner.grad());
    return outcome;
  });
}

TEST_P(Backwards, GradientsAreAccumulatedOverSeveralCheckpoints) {
  expect_same(two_leaves, [](const Mode& mode, Tensors& x) {
    Outcome outcome;
    for (int i = 0; i < 3; ++i) {
      const Tensors y = apply(mode, f, x);
      (y[0].sum() + y[1].sum()).backward();
    }
    outcome.add("sum", x[0].grad());
    outcome.add("sum", x[1].grad());
    return outcome;
  });
}

struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::Tensor square = x * x;
    context->save_for_backward({x, square});
    return square * x;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    return {gradients[0] * 3 * saved[1]};
  }
};

TEST_P(Backwards, CustomFunctionInsideACheckpoint) {
  expect_same(two_leaves, [](const Tensors& x) { return Tensors{Cube::apply(x[0].sin()).exp() * Cube::apply(x[1])}; });
}

/// A checkpoint in the forward, and another in the backward, of a custom function.
struct Checkpointing : torch::autograd::Function<Checkpointing> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const Mode* mode) {
    context->save_for_backward({x});
    context->saved_data["mode"] = reinterpret_cast<int64_t>(mode);
    const at::AutoGradMode grad(true);
    const at::Tensor inside = x.detach().requires_grad_();
    const at::Tensor y = test::apply(*mode, &Checkpointing::body, {inside})[0];
    context->saved_data["gradient"] = torch::autograd::grad({y.sum()}, {inside})[0];
    return y.detach();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto* mode = reinterpret_cast<const Mode*>(context->saved_data["mode"].toInt());
    const at::AutoGradMode grad(true);
    const at::Tensor inside = context->get_saved_variables()[0].detach().requires_grad_();
    const at::Tensor again =
        torch::autograd::grad({test::apply(*mode, &Checkpointing::body, {inside})[0].sum()}, {inside})[0];
    EXPECT_TRUE(same_bits(again, context->saved_data["gradient"].toTensor()));
    return {gradients[0] * again, at::Tensor()};
  }
  static Tensors body(const Tensors& in) { return {torch::dropout(in[0].sin(), 0.0, true).exp().sin()}; }
};

TEST_P(Backwards, CheckpointInsideACustomFunction) {
  expect_same(two_leaves, [](const Mode& mode, Tensors& x) {
    Outcome outcome;
    const auto g = [&mode](const Tensors& in) { return Tensors{Checkpointing::apply(in[0].exp(), &mode).sin()}; };
    backward_of_sum(g(x), {x[0]}, outcome);
    backward_of_sum(apply(mode, g, x), {x[0]}, outcome);
    return outcome;
  });
}

TEST_P(Backwards, HooksFireAsOftenAsWithoutCheckpointing) {
  expect_same(two_leaves, [](const Mode& mode, Tensors& x) {
    Outcome outcome;
    auto order = std::make_shared<std::vector<std::string>>();
    const auto note = [order](const std::string& name) {
      return [order, name](const at::Tensor& gradient) {
        order->push_back(name);
        return gradient * 2;
      };
    };
    x[0].register_hook(note("leaf"));
    const at::Tensor h = x[0].exp();
    h.register_hook(note("input"));
    const auto g = [note](const Tensors& in) {
      const at::Tensor y = in[0].sin();
      y.register_hook(note("inside"));
      return Tensors{y.exp()};
    };
    const at::Tensor y = apply(mode, g, {h})[0];
    y.register_hook(note("output"));
    y.retain_grad();
    h.retain_grad();
    y.sum().backward();
    EXPECT_EQ(*order, (std::vector<std::string>{"output", "inside", "input", "leaf"}));
    outcome.add("leaf", x[0].grad());
    outcome.add("input", h.grad());
    outcome.add("output", y.grad());
    return outcome;
  });
}

ENCORE_IN_EVERY_MODE(Backwards);

TEST(Dropped, AGraphDroppedWithoutBackwardLeavesNothing) {
  const at::Tensor x = leaf({64});
  for (const Recompute recompute : {Recompute::kReplay, Recompute::kRerun}) {
    CheckpointOptions options;
    options.recompute = recompute;
    const int64_t live = live_tensor_bytes();
    {
      const at::Tensor y = checkpoint(
          options, [](const at::Tensor& in) { return torch::dropout(in.exp(), 0.5, true).sin(); }, x);
      EXPECT_GT(live_tensor_bytes(), live);
    }
    EXPECT_EQ(live_tensor_bytes(), live);
  }
}

}  // namespace
}  // namespace encore::test
