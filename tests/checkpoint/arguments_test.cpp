// What a checkpointed function may take and give: tensors in containers, tuples, optionals and structs, plain values.
#include <array>
#include <deque>
#include <map>

#include "support/oracle.h"

namespace encore::test {

struct Pair {
  at::Tensor a;
  std::optional<at::Tensor> b;
  int n = 0;
};
template <class P, class = std::enable_if_t<std::is_same_v<std::remove_cv_t<P>, Pair>>>
auto encore_fields(P& pair) {
  return std::tie(pair.a, pair.b, pair.n);
}

namespace {

class Arguments : public EveryMode {
 protected:
  /// Gradients of `leaves` with f called plainly and under the mode.
  template <class F>
  void expect_same_call(const F& f) {
    expect_same(
        [] {
          return Tensors{leaf({3, 4}), leaf({3, 4})};
        },
        [&](const Mode& mode, Tensors& x) {
          Outcome outcome;
          backward_of_sum(f(mode, x), x, outcome);
          return outcome;
        });
  }

  template <class F, class... Args>
  static auto call(const Mode& mode, const F& f, Args&&... args) {
    return mode.checkpointed ? checkpoint(mode.options, f)(std::forward<Args>(args)...)
                             : f(std::forward<Args>(args)...);
  }
};

TEST_P(Arguments, PlainValuesPassThroughInBothDirections) {
  expect_same_call([](const Mode& mode, const Tensors& x) {
    const auto f = [](const at::Tensor& a, double factor, const std::string& name, bool flag) {
      return std::make_tuple((a * factor).exp(), static_cast<int>(name.size()), flag, name + "!");
    };
    const auto [y, size, flag, name] = call(mode, f, x[0], 1.5, std::string("abc"), true);
    EXPECT_EQ(size, 3);
    EXPECT_TRUE(flag);
    EXPECT_EQ(name, "abc!");
    return Tensors{y};
  });
}

TEST_P(Arguments, Optionals) {
  expect_same_call([](const Mode& mode, const Tensors& x) {
    const auto f = [](const at::Tensor& a, const std::optional<at::Tensor>& b, c10::optional<at::Tensor> c) {
      const at::Tensor y = (b ? a * *b : a).sin().exp();
      return std::make_pair(c ? y * *c : y, b ? std::optional<at::Tensor>() : std::optional<at::Tensor>(y.sigmoid()));
    };
    const auto [y, no] = call(mode, f, x[0], std::optional<at::Tensor>(x[1]), c10::optional<at::Tensor>());
    const auto [z, yes] = call(mode, f, x[0], std::optional<at::Tensor>(), c10::optional<at::Tensor>(x[1]));
    EXPECT_FALSE(no.has_value());
    EXPECT_TRUE(yes.has_value());
    return Tensors{y, z, yes.value_or(y)};
  });
}

TEST_P(Arguments, ContainersAndTuples) {
  expect_same_call([](const Mode& mode, const Tensors& x) {
    const auto f = [](const std::array<at::Tensor, 2>& a, const std::map<std::string, at::Tensor>& b,
                      const std::deque<std::tuple<at::Tensor, int>>& c) {
      const at::Tensor y = (a[0] * a[1]).exp() + b.at("w").sin();
      const std::vector<std::vector<at::Tensor>> result = {{y.sigmoid()}, {y * std::get<0>(c[0]), y.tanh()}};
      return result;
    };
    const auto y = call(mode, f, std::array<at::Tensor, 2>{x[0], x[1]}, std::map<std::string, at::Tensor>{{"w", x[1]}},
                        std::deque<std::tuple<at::Tensor, int>>{{x[0], 3}});
    return Tensors{y[0][0], y[1][0], y[1][1]};
  });
}

TEST_P(Arguments, StructsThatShowTheirFields) {
  expect_same_call([](const Mode& mode, const Tensors& x) {
    const auto f = [](const Pair& in) { return Pair{(in.a * *in.b).exp(), in.a.sin(), in.n + 1}; };
    const Pair y = call(mode, f, Pair{x[0], x[1], 4});
    EXPECT_EQ(y.n, 5);
    return Tensors{y.a, *y.b};
  });
}

TEST_P(Arguments, FunctionPointersModulePointersAndMemberState) {
  expect_same_call([](const Mode& mode, const Tensors& x) {
    torch::nn::Linear linear(4, 4);
    torch::nn::init::ones_(linear->weight);
    torch::nn::init::zeros_(linear->bias);
    at::Tensor (*function)(const at::Tensor&) = [](const at::Tensor& a) { return a.exp().sin(); };
    const at::Tensor y = mode.checkpointed ? checkpoint(mode.options, linear.ptr(), x[0]) : linear->forward(x[0]);
    const at::Tensor z = mode.checkpointed ? checkpoint(mode.options, function, y) : function(y);
    return Tensors{z};
  });
}

TEST_P(Arguments, MoveOnlyResults) {
  expect_same_call([](const Mode& mode, const Tensors& x) {
    const auto f = [](const at::Tensor& a) { return std::make_unique<at::Tensor>(a.exp().sin()); };
    const std::unique_ptr<at::Tensor> y = call(mode, f, x[0]);
    return Tensors{*y};
  });
}

TEST_P(Arguments, RecurrentStateAsATuple) {
  expect_same_call([](const Mode& mode, const Tensors& x) {
    torch::manual_seed(3);
    torch::nn::LSTM lstm(4, 4);
    const auto state = std::make_tuple(x[0].view({1, 3, 4}), x[1].view({1, 3, 4}));
    const at::Tensor in = (x[0] + x[1]).view({1, 3, 4});
    torch::optional<std::tuple<at::Tensor, at::Tensor>> hx = state;
    const auto [y, next] = mode.checkpointed ? checkpoint(mode.options, lstm, in, hx) : lstm->forward(in, hx);
    return Tensors{y, std::get<0>(next), std::get<1>(next)};
  });
}

ENCORE_IN_EVERY_MODE(Arguments);

TEST(MoveOnly, ArgumentsWorkWithReplayAndAreRefusedByRerun) {
  const at::Tensor x = leaf({3});
  const auto f = [](const at::Tensor& a, const std::unique_ptr<int>& n) { return (a * *n).exp().sin(); };
  const auto n = std::make_unique<int>(2);
  const at::Tensor y = checkpoint(f, x, n);
  const at::Tensor gradient = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_TRUE(same_bits(gradient, torch::autograd::grad({f(x, n).sum()}, {x})[0]));
  CheckpointOptions options;
  options.recompute = Recompute::kRerun;
  const std::string message = message_of<InvalidArgument>([&] { checkpoint(options, f, x, n); });
  EXPECT_NE(message.find("can't be copied"), std::string::npos) << message;
}

TEST(Checkpointed, IsCalledOncePerCallWithReplayAndAgainWithRerun) {
  const at::Tensor x = leaf({3});
  for (const Recompute recompute : {Recompute::kReplay, Recompute::kRerun}) {
    CheckpointOptions options;
    options.recompute = recompute;
    auto calls = std::make_shared<int>(0);
    const auto f = checkpoint(options, [calls](const at::Tensor& a) {
      ++*calls;
      return a.exp().sin();
    });
    f(x).sum().backward();
    EXPECT_EQ(*calls, recompute == Recompute::kReplay ? 1 : 2);
  }
}

}  // namespace
}  // namespace encore::test
