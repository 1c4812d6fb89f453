// Scopes: what they record and count, how they end, and the calls that only work inside them.
#include <thread>

#include "support/oracle.h"

namespace encore::test {
namespace {

bool nothing_is_open() {
  try {
    static_cast<void>(checkpoint(torch::ones({1})));
  } catch (const ScopeError&) {
    return true;
  }
  return false;
}

at::Tensor model(const at::Tensor& x) {
  return x.tanh().sigmoid().tanh().exp();
}

TEST(Scopes, CallsThatNeedAScopeThrowOutsideOne) {
  const at::Tensor x = leaf({2});
  for (const std::string& message : {message_of<ScopeError>([&] { static_cast<void>(checkpoint(x)); }),
                                     message_of<ScopeError>([&] { static_cast<void>(adaptive_checkpoint(x, 8)); })}) {
    EXPECT_NE(message.find("encore::Scope"), std::string::npos) << message;
  }
}

TEST(Scopes, AnOuterScopeEndedBeforeTheInnerIsAnError) {
  Scope outer(keep_all(), "outer");
  Scope inner(keep_all(), "inner");
  const std::string message = message_of<ScopeError>([&] { outer.end(); });
  EXPECT_NE(message.find("'outer'"), std::string::npos) << message;
  EXPECT_NE(message.find("innermost first"), std::string::npos) << message;
  inner.end();
  outer.end();
  EXPECT_TRUE(nothing_is_open());
}

TEST(Scopes, EndedTwiceIsAnError) {
  Scope scope;
  scope.end();
  EXPECT_THROW(scope.end(), ScopeError);
  EXPECT_TRUE(nothing_is_open());
}

TEST(Scopes, DestroyingTheOuterEndsTheInner) {
  auto outer = std::make_unique<Scope>();
  auto inner = std::make_unique<Scope>();
  outer.reset();
  EXPECT_TRUE(nothing_is_open());
  EXPECT_THROW(inner->end(), ScopeError);
  inner.reset();
  EXPECT_TRUE(nothing_is_open());
}

TEST(Scopes, EndedOnAnotherThreadIsAnErrorAndDestroyedThereIsNot) {
  auto scope = std::make_unique<Scope>();
  std::thread([&] {
    EXPECT_THROW(scope->end(), ScopeError);
    scope.reset();
  }).join();
  EXPECT_TRUE(nothing_is_open());
  const at::Tensor x = leaf({4});
  const at::Tensor expected = torch::autograd::grad({model(x).sum()}, {x})[0];
  EXPECT_TRUE(same_bits(expected, torch::autograd::grad({checkpoint(model, x).sum()}, {x})[0]));
  EXPECT_TRUE(nothing_is_open());
}

TEST(Scopes, BackwardInsideAfterAndLongAfterTheScope) {
  const at::Tensor x = leaf({16});
  const at::Tensor expected = torch::autograd::grad({model(x).sum()}, {x})[0];
  at::Tensor late;
  {
    Scope scope(drop_all());
    EXPECT_TRUE(same_bits(expected, torch::autograd::grad({model(x).sum()}, {x})[0]));
    late = model(x).sum();
  }
  EXPECT_TRUE(nothing_is_open());
  EXPECT_TRUE(same_bits(expected, torch::autograd::grad({late}, {x})[0]));
}

TEST(Scopes, MarkingWhatIsDroppedCountsItOnce) {
  const at::Tensor x = leaf({8});
  Scope scope(drop_all());
  const at::Tensor h = x.exp();
  const at::Tensor y = h.sin();
  static_cast<void>(checkpoint(h));
  EXPECT_EQ(scope.stats().values_kept, 0);
  EXPECT_EQ(scope.stats().bytes_kept, 0);
  EXPECT_EQ(scope.stats().values_dropped, 1);
}

TEST(Scopes, KeepAllKeepsAndDropAllDrops) {
  const at::Tensor x = leaf({256});
  const int64_t bytes = 256 * 4;
  for (const bool keep : {true, false}) {
    Scope scope(keep ? keep_all() : drop_all());
    const int64_t before = live_tensor_bytes();
    at::Tensor y = model(x).sum();
    const int64_t live = live_tensor_bytes() - before;
    EXPECT_EQ(live, keep ? 4 * bytes + 4 : 4);
    y.backward();
    const ScopeStats stats = scope.stats();
    EXPECT_EQ(stats.values_kept, keep ? 4 : 0);
    EXPECT_EQ(stats.bytes_kept, keep ? 4 * bytes : 0);
    EXPECT_EQ(stats.values_dropped, keep ? 0 : 4);
    EXPECT_EQ(stats.bytes_dropped, keep ? 0 : 4 * bytes);
    EXPECT_EQ(stats.ops_replayed > 0, !keep);
  }
}

TEST(Scopes, CheckpointOfATensorDropsThatOne) {
  const at::Tensor x = leaf({256});
  const at::Tensor expected = torch::autograd::grad({model(x).sum()}, {x})[0];
  Scope scope;
  at::Tensor y = x.tanh().sigmoid();
  EXPECT_TRUE(checkpoint(y).is_same(y));
  y = y.tanh().exp();
  EXPECT_TRUE(same_bits(expected, torch::autograd::grad({y.sum()}, {x})[0]));
  EXPECT_EQ(scope.stats().values_dropped, 1);
  EXPECT_EQ(scope.stats().values_kept, 3);
  EXPECT_EQ(scope.stats().ops_replayed, 1);
  EXPECT_EQ(scope.stats().marked_but_kept, 0);
  static_cast<void>(checkpoint(x));
  EXPECT_EQ(scope.stats().marked_but_kept, 1) << "what comes from outside can't be recomputed";
  EXPECT_THROW(static_cast<void>(checkpoint(at::Tensor())), InvalidArgument);
}

TEST(Scopes, AdaptiveCheckpointDropsWhatIsStrictlyLarger) {
  const at::Tensor x = leaf({256});
  for (const int64_t threshold : {1023, 1024}) {
    Scope scope;
    const at::Tensor y = adaptive_checkpoint(x.tanh(), threshold).exp();
    EXPECT_EQ(scope.stats().values_dropped, threshold == 1023 ? 1 : 0);
  }
}

TEST(Scopes, OptimizerStepsInsideAScope) {
  const auto train = [](bool scoped) {
    torch::manual_seed(3);
    torch::nn::Linear linear(8, 8);
    torch::optim::Adam adam(linear->parameters(), 0.01);
    torch::optim::SGD sgd(linear->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    std::optional<Scope> scope;
    if (scoped) {
      scope.emplace(drop_all());
    }
    for (int step = 0; step < 4; ++step) {
      adam.zero_grad();
      const at::Tensor x = torch::randn({4, 8});
      torch::dropout(linear->forward(linear->forward(x).tanh()).sigmoid(), 0.5, true).exp().sum().backward();
      adam.step();
      sgd.step();
    }
    return linear->parameters();
  };
  const int64_t before = live_tensor_bytes();
  {
    const Tensors expected = train(false);
    const Tensors actual = train(true);
    EXPECT_TRUE(same_bits(expected[0], actual[0]));
    EXPECT_TRUE(same_bits(expected[1], actual[1]));
  }
  EXPECT_EQ(live_tensor_bytes(), before);
}

TEST(Scopes, ParametersSteppedBetweenForwardAndBackwardInsideAScope) {
  torch::nn::Linear linear(8, 8);
  const at::Tensor x = leaf({4, 8});
  Scope scope(drop_all());
  const at::Tensor y = linear->forward(x).tanh().sum();
  {
    const torch::NoGradGuard no_grad;
    linear->weight.add_(1);
  }
  EXPECT_THROW(y.backward(), ChangedError);
  linear->weight.data().add_(1);
  const at::Tensor z = linear->forward(x).tanh().sum();
  linear->weight.data().add_(1);
  EXPECT_THROW(z.backward(), ChangedError) << "no version counter shows it";
}

TEST(Policies, KeepMatmulsKeepsThemAndDropsTheRest) {
  const at::Tensor x = leaf({8, 8});
  const at::Tensor weight = leaf({8, 8});
  const auto f = [weight](const at::Tensor& in) { return in.mm(weight).sin().tanh().mm(weight).sigmoid().sum(); };
  const at::Tensor expected = torch::autograd::grad({f(x)}, {weight})[0];
  CheckpointOptions options;
  options.policy = keep_matmuls();
  Scope scope;
  const at::Tensor y = checkpoint(options, f, x);
  EXPECT_TRUE(same_bits(expected, torch::autograd::grad({y}, {weight})[0]));
  EXPECT_EQ(scope.stats().values_kept, 1) << "the first product, which sin saves; sigmoid does not save its argument";
  EXPECT_EQ(scope.stats().values_dropped, 2) << "tanh's and sigmoid's results";
  EXPECT_EQ(scope.stats().ops_replayed, 4) << "sin, tanh, and the second product for sigmoid";
}

TEST(Policies, AMatrixProductWithABiasAddedInPlaceIsOne) {
  const at::Tensor x = torch::randn({4, 8, 16});
  const at::Tensor weight = torch::randn({16, 16}).requires_grad_();
  const at::Tensor bias = torch::randn({16}).requires_grad_();
  const Scope scope(keep_matmuls());
  const at::Tensor y = x.matmul(weight).add_(bias).tanh().exp().sum();
  EXPECT_EQ(scope.stats().values_kept, 0) << "tanh and exp save their results";
  const at::Tensor z = x.matmul(weight).add_(bias).sin().sum();
  EXPECT_EQ(scope.stats().values_kept, 1) << "sin saves the product";
}

TEST(Policies, NamesSizesOpsAndCombinations) {
  const auto action = [](const Policy& policy, std::string_view op, std::string_view path, int64_t bytes) {
    return policy({op, path, bytes, false});
  };
  constexpr Action kKeep = Action::kKeep;
  constexpr Action kRecompute = Action::kRecompute;
  EXPECT_EQ(action(keep_matmuls(), "aten::addmm", "", 1), kKeep);
  EXPECT_EQ(action(keep_matmuls(), "aten::mul.Tensor", "", 1), kRecompute);
  EXPECT_EQ(action(keep_ops({"aten::mul", "aten::add.Tensor"}), "aten::mul.Scalar", "", 1), kKeep);
  EXPECT_EQ(action(keep_ops({"aten::mul", "aten::add.Tensor"}), "aten::add.Scalar", "", 1), kRecompute);
  EXPECT_EQ(action(pack_masks(), "aten::bernoulli_", "", 1), kRecompute) << "not drawn";
  EXPECT_EQ(pack_masks()({"aten::bernoulli_.float", "", 1, true}), Action::kPack);
  EXPECT_EQ((keep_matmuls() | pack_masks())({"aten::mul.Tensor", "", 1, true}), Action::kPack);
  EXPECT_EQ(action(larger_than(10), "aten::exp", "", 10), kKeep);
  EXPECT_EQ(action(larger_than(10), "aten::exp", "", 11), kRecompute);
  EXPECT_EQ(action(named("*/block?"), "aten::exp", "decoder/block3", 1), kRecompute);
  EXPECT_EQ(action(named("*/block?"), "aten::exp", "decoder/block33", 1), kKeep);
  EXPECT_EQ(action(named("a*"), "aten::exp", "b", 1), kKeep);
  const Policy both = named("a", keep_all()) | larger_than(10);
  EXPECT_EQ(action(both, "aten::exp", "a", 100), kKeep);
  EXPECT_EQ(action(both, "aten::exp", "b", 100), kRecompute);
  EXPECT_EQ(action(both, "aten::exp", "b", 1), kKeep);
}

TEST(Policies, SeePathsOfNestedScopes) {
  const at::Tensor x = leaf({4});
  std::vector<std::string> seen;
  const Policy spy(
      [&seen](const ValueInfo& value) -> std::optional<Action> {
        seen.push_back(std::string(value.path) + " " + std::string(value.op) + " " + std::to_string(value.bytes));
        return std::nullopt;
      },
      Action::kRecompute);
  Scope outer(spy, "outer");
  CheckpointOptions options;
  options.name = "inner";
  options.policy = spy;
  const at::Tensor y = checkpoint(
                           options, [](const at::Tensor& in) { return in.tanh() + 1; }, x)
                           .exp();
  EXPECT_EQ(seen, (std::vector<std::string>{"outer/inner aten::tanh 16", "outer aten::exp 16"}));
}

TEST(Scope, CountsItsOpsUntilItEnds) {
  const at::Tensor x = leaf({2, 2});
  const Scope outer(keep_all(), "outer");
  std::optional<Scope> inner;
  inner.emplace(keep_all(), "inner");
  const at::Tensor y = x.sin().exp();
  inner->end();
  const at::Tensor z = y.cos().sin();
  EXPECT_EQ(inner->stats().ops_recorded, 2);
  EXPECT_EQ(outer.stats().ops_recorded, 4);
}

}  // namespace
}  // namespace encore::test
