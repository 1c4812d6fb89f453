// In-place ops, views and outside tensors that change: the right gradient, or an error that names the tensor.
#include "support/oracle.h"

namespace encore::test {
namespace {

using InPlace = EveryMode;

TEST_P(InPlace, OnIntermediates) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4})};
      },
      [](const Tensors& x) {
        at::Tensor y = x[0] * 2;
        y.add_(1).mul_(x[0].sin()).sigmoid_();
        return Tensors{y.exp(), y};
      });
}

TEST_P(InPlace, OnViewsOfViews) {
  expect_same(
      [] {
        return Tensors{leaf({6, 6})};
      },
      [](const Tensors& x) {
        at::Tensor y = x[0] + 1;
        at::Tensor view = y.narrow(0, 1, 4).t().narrow(0, 2, 3);
        view.mul_(x[0].narrow(0, 0, 3).narrow(1, 0, 4).sin());
        y.select(1, 0).copy_(x[0].select(0, 0));
        view.select(0, 0).tanh_();
        return Tensors{y.sin(), view.exp()};
      });
}

TEST_P(InPlace, OnAnInput) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        at::Tensor h = x[0] * 3;
        const auto f = [](const Tensors& in) {
          at::Tensor y = in[0].mul_(2);
          return Tensors{y.sigmoid() * y.sin(), y};
        };
        const Tensors out = apply(mode, f, {h});
        outcome.add("input after", h);
        backward_of_sum(out, x, outcome);
        return outcome;
      });
}

TEST_P(InPlace, OnAnInputOfWhichAutogradSavesAClone) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4}), leaf({4, 4})};
      },
      [&](const Mode& mode, Tensors& inputs) {
        const at::Tensor given = inputs[0] * 3;
        Outcome outcome;
        const Tensors outputs = apply(mode,
                                      [](const Tensors& in) {
                                        at::Tensor x = in[0];
                                        x.mul_(in[1]).pow_(3);
                                        return Tensors{x.sin()};
                                      },
                                      {given, inputs[1]});
        backward_of_sum(outputs, inputs, outcome);
        return outcome;
      });
}

TEST_P(InPlace, OnAViewOfAnInput) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4}), leaf({4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        at::Tensor h = x[0] * 3;
        const auto f = [](const Tensors& in) {
          at::Tensor y = in[0];
          y.select(0, 1).copy_(in[1].exp());
          return Tensors{y.sin().exp()};
        };
        const Tensors out = apply(mode, f, {h, x[1]});
        outcome.add("input after", h);
        backward_of_sum(out, x, outcome);
        return outcome;
      });
}

TEST_P(InPlace, OnAnInputThatIsReadBeforeAndAfter) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4}), torch::randn({4, 4})};
      },
      [](const Tensors& x) {
        at::Tensor buffer = x[1];
        at::Tensor y = (x[0] + buffer).exp().sigmoid();
        buffer.mul_(2);
        y = (y + buffer).exp().sigmoid();
        buffer.zero_();
        return Tensors{(y + buffer).tanh().exp(), buffer};
      });
}

TEST_P(InPlace, BufferOverwrittenBeforeAnythingWasDropped) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4}), torch::randn({4, 4})};
      },
      [](const Tensors& x) {
        const at::Tensor y = x[0] + x[1];  // nothing is dropped yet, so y is kept and not a copy of the buffer
        at::Tensor buffer = x[1];
        buffer.add_(1);
        return Tensors{y.exp().sin()};
      });
}

TEST_P(InPlace, OutputChangedByTheCaller) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const auto f = [](const Tensors& in) { return Tensors{in[0].sin().exp() + 1}; };
        Tensors out = apply(mode, f, x);
        out[0].mul_(2);
        out[0].select(0, 1).zero_();
        backward_of_sum(out, x, outcome);
        return outcome;
      });
}

TEST_P(InPlace, OutOpsThatReadWhatTheyWrite) {
  expect_same(
      [] {
        return Tensors{leaf({4, 4}), torch::randn({4, 4})};
      },
      [](const Tensors& x) {
        at::Tensor sum = x[1].exp();
        at::add_out(sum, sum, x[1]);
        at::Tensor square = x[1].sin();
        square.narrow(0, 0, 2).copy_(square.narrow(0, 2, 2));
        at::Tensor copied = x[1].tan();
        copied.copy_(copied);
        at::Tensor filled = x[1].cos();
        filled.fill_(filled[0][0]);
        return Tensors{x[0] * sum, x[0] * square, x[0] * filled, x[0] * copied};
      });
}

TEST_P(InPlace, SlicesAssigned) {
  expect_same(
      [] {
        return Tensors{leaf({6, 4}), leaf({2, 4})};
      },
      [](const Tensors& x) {
        using torch::indexing::Slice;
        at::Tensor y = torch::zeros({6, 4});
        y.index_put_({Slice(0, 2)}, x[1].exp());
        y.index_put_({Slice(2, 6, 2), Slice(1, 3)}, x[0].index({Slice(0, 2), Slice(0, 2)}).sin());
        y.masked_fill_(x[0].detach() > 1, 0.5);
        return Tensors{(y * x[0]).tanh()};
      });
}

TEST_P(InPlace, ViewsThatChangeShapeInPlace) {
  expect_same(
      [] {
        return Tensors{leaf({4, 6})};
      },
      [](const Tensors& x) {
        at::Tensor y = x[0] * 2;
        y.t_();
        y.unsqueeze_(0);
        y = y.sin().exp() + 1;
        y.squeeze_(0).transpose_(0, 1);
        return Tensors{y.sigmoid()};
      });
}

TEST_P(InPlace, ForeachOps) {
  expect_same(
      [] {
        return Tensors{leaf({4}), torch::randn({4}), torch::randn({4})};
      },
      [](const Tensors& x) {
        Tensors buffers{x[1].exp(), x[2].exp()};
        at::_foreach_add_(buffers, 1.5);
        at::_foreach_mul_(buffers, Tensors{x[2], x[1]});
        return Tensors{x[0] * buffers[0], x[0].exp() * buffers[1]};
      });
}

TEST_P(InPlace, StoragesResizedAndExchanged) {
  expect_same(
      [] {
        return Tensors{leaf({4}), torch::randn({4})};
      },
      [](const Tensors& x) {
        at::Tensor y = x[1].exp();
        y.resize_({8});
        y.fill_(2);
        at::Tensor z = x[1].sin();
        z.set_(x[1].cos());
        at::Tensor out = torch::empty({0});
        at::mul_out(out, x[1], x[1]);
        return Tensors{x[0] * y.narrow(0, 2, 4), x[0] * z, x[0].exp() * out};
      });
}

TEST_P(InPlace, SeveralResultsWrittenToArguments) {
  expect_same(
      [] {
        return Tensors{leaf({4, 8}), leaf({4})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const auto f = [](const Tensors& in) {
          at::Tensor largest = torch::zeros({4});
          at::Tensor where = torch::zeros({4}, at::kLong);
          at::max_out(largest, where, in[0].detach(), 1);
          return Tensors{(largest + 1) * in[1], (in[0].sum(1) * (where + 1)).sin()};
        };
        backward_of_sum(apply(mode, f, x), x, outcome);
        return outcome;
      });
}

TEST_P(InPlace, ResultsChangedThroughDataByTheCaller) {
  expect_same([] { return Tensors{leaf({4})}; },
              [](const Mode& mode, Tensors& x) {
                Outcome outcome;
                const auto f = [](const Tensors& in) {
                  const at::Tensor y = in[0] * 2;
                  return Tensors{y, (y + 1).sin()};
                };
                const Tensors results = apply(mode, f, x);
                results[0].data().mul_(5);
                backward_of_sum({results[1]}, x, outcome);
                return outcome;
              });
}

ENCORE_IN_EVERY_MODE(InPlace);

TEST(InPlaceInAScope, AVersionThatSomebodyStillWaitsForIsNotOverwritten) {
  const at::Tensor x = leaf({4});
  at::Tensor metric;  // autograd waits for its gradient, which never comes
  const auto f = [&] {
    at::Tensor a = x * 2;
    a.mul_(3);
    metric = a.sin();
    const at::Tensor u = (a + 1).cos();
    a.add_(1);
    return (u + a.sin()).sum();
  };
  const at::Tensor expected = torch::autograd::grad({f()}, {x})[0];
  auto scope = std::make_unique<Scope>(drop_all());
  const at::Tensor loss = f();
  scope.reset();
  EXPECT_TRUE(same_bits(expected, torch::autograd::grad({loss}, {x})[0]));
}

TEST(InPlaceInAScope, TwoPartsWrittenByOneOp) {
  const at::Tensor x = leaf({2, 4});
  const Scope scope(drop_all());
  const at::Tensor b = x.exp();
  const at::Tensor y = b[1].sin();
  {
    const at::NoGradGuard no_grad;
    const at::Tensor parts = b.detach();
    at::_foreach_mul_({parts[0], parts[1]}, 3.0);
  }
  // Without a scope backward refuses this; with it the value is known as it was.
  const at::Tensor expected = torch::autograd::grad({x.exp()[1].sin().sum()}, {x})[0];
  EXPECT_TRUE(same_bits(expected, torch::autograd::grad({y.sum()}, {x})[0]));
}

class Changed : public ::testing::TestWithParam<Recompute> {
 protected:
  CheckpointOptions options() const {
    CheckpointOptions options;
    options.name = "block";
    options.recompute = GetParam();
    return options;
  }
};

TEST_P(Changed, InputChangedAfterForwardIsAnErrorThatNamesIt) {
  const at::Tensor x = leaf({4, 3});
  const at::Tensor input = torch::randn({4, 3});
  const at::Tensor y = checkpoint(
      options(), [](const at::Tensor& a, const at::Tensor& b) { return (a + b).exp().sin(); }, x, input);
  input.add_(1);
  const std::string message = message_of<ChangedError>([&] { y.sum().backward(); });
  EXPECT_NE(message.find("Float[4, 3]"), std::string::npos) << message;
  EXPECT_NE(message.find("block"), std::string::npos) << message;
  EXPECT_NE(message.find("changed in place"), std::string::npos) << message;
  EXPECT_FALSE(x.grad().defined());
}

TEST_P(Changed, ParameterChangedAfterForwardIsAnErrorThatNamesIt) {
  torch::nn::Linear linear(5, 7);
  const at::Tensor x = leaf({4, 5});
  const at::Tensor y = checkpoint(
      options(), [linear](const at::Tensor& in) mutable { return linear->forward(in).tanh(); }, x);
  torch::optim::SGD sgd(linear->parameters(), 0.1);
  for (auto& parameter : linear->parameters()) {
    parameter.mutable_grad() = torch::ones_like(parameter);
  }
  sgd.step();
  const std::string message = message_of<ChangedError>([&] { y.sum().backward(); });
  EXPECT_NE(message.find("Float["), std::string::npos) << message;
  EXPECT_NE(message.find("block"), std::string::npos) << message;
  EXPECT_FALSE(x.grad().defined());
}

TEST_P(Changed, ChangedThroughAViewOrADetachedAliasIsSeen) {
  for (const bool view : {false, true}) {
    const at::Tensor x = leaf({4, 3});
    const at::Tensor input = torch::randn({4, 3});
    const at::Tensor y = checkpoint(
        options(), [](const at::Tensor& a, const at::Tensor& b) { return (a + b).exp().sin(); }, x, input);
    (view ? input.select(0, 1) : input.detach()).add_(1);
    EXPECT_THROW(y.sum().backward(), ChangedError);
    EXPECT_FALSE(x.grad().defined());
  }
}

TEST_P(Changed, ChangedByTheFunctionItselfAfterItWasSaved) {
  // Backward without a checkpoint refuses this. Replay knows both versions; another call has only the last one left.
  const auto f = [](const at::Tensor& in) {
    const at::Tensor saved = in.exp();
    const at::Tensor first = saved * 3;
    saved.mul_(2);
    return first + saved;
  };
  const at::Tensor x = leaf({4, 3});
  EXPECT_THROW(f(x).sum().backward(), c10::Error);
  CheckpointOptions to_its_end = options();
  to_its_end.early_stop = false;
  const at::Tensor y = checkpoint(to_its_end, f, x);
  if (GetParam() == Recompute::kRerun) {
    const std::string message = message_of<ChangedError>([&] { y.sum().backward(); });
    EXPECT_NE(message.find("checkpoint 'block': the tensor Float[4, 3] was changed in place"), std::string::npos)
        << message;
    return;
  }
  const at::Tensor expected = torch::autograd::grad({(x.exp() * 3 + x.exp().mul(2)).sum()}, {x})[0];
  EXPECT_TRUE(at::allclose(expected, torch::autograd::grad({y.sum()}, {x})[0]));
}

TEST_P(Changed, TheNextStepWorks) {
  const at::Tensor x = leaf({4, 3});
  const at::Tensor input = torch::randn({4, 3});
  const auto f = [](const at::Tensor& a, const at::Tensor& b) { return (a + b).exp().sin(); };
  const int64_t live = live_tensor_bytes();
  {
    const at::Tensor y = checkpoint(options(), f, x, input);
    input.add_(1);
    EXPECT_THROW(y.sum().backward(), ChangedError);
  }
  EXPECT_EQ(live_tensor_bytes(), live);
  const at::Tensor expected = torch::autograd::grad({f(x, input).sum()}, {x})[0];
  const at::Tensor actual = torch::autograd::grad({checkpoint(options(), f, x, input).sum()}, {x})[0];
  EXPECT_TRUE(same_bits(expected, actual));
}

INSTANTIATE_TEST_SUITE_P(Modes, Changed, ::testing::Values(Recompute::kReplay, Recompute::kRerun),
                         [](const auto& test) { return test.param == Recompute::kReplay ? "Replay" : "Rerun"; });

}  // namespace
}  // namespace encore::test
