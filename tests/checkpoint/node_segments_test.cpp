// Node segments: plans, and scopes that execute them.
#include "support/oracle.h"

namespace encore::test {
namespace {

using Plan = std::vector<bool>;

TEST(NodeSegments, UniformFromTheLiterature) {
  const CheckpointConfig two = CheckpointConfig::uniform(10, 2);
  ASSERT_EQ(two.segments.size(), 2u);
  EXPECT_EQ(two.segments[0], (CheckpointSegment{0, 4}));
  EXPECT_EQ(two.segments[1], (CheckpointSegment{5, 9}));
  const CheckpointConfig one = CheckpointConfig::uniform(8, 1);
  ASSERT_EQ(one.segments.size(), 1u);
  EXPECT_EQ(one.segments[0], (CheckpointSegment{0, 7}));
  EXPECT_EQ(plan_recomputation(8, one), Plan(8, true));
}

TEST(NodeSegments, UniformAtItsEdges) {
  EXPECT_TRUE(CheckpointConfig::uniform(0, 3).segments.empty());
  EXPECT_TRUE(CheckpointConfig::uniform(3, 0).segments.empty());
  const CheckpointConfig many = CheckpointConfig::uniform(3, 10);
  ASSERT_EQ(many.segments.size(), 3u) << "one node each, not silently nothing";
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(many.segments[static_cast<size_t>(i)], (CheckpointSegment{i, i}));
  }
  EXPECT_THROW(CheckpointConfig::uniform(-1, 2), InvalidArgument);
  EXPECT_THROW(CheckpointConfig::uniform(2, -1), InvalidArgument);
  for (int64_t nodes = 1; nodes < 40; ++nodes) {
    for (int64_t segments = 1; segments < 45; ++segments) {
      const CheckpointConfig config = CheckpointConfig::uniform(nodes, segments);
      EXPECT_EQ(plan_recomputation(nodes, config), Plan(static_cast<size_t>(nodes), true));
      EXPECT_EQ(static_cast<int64_t>(config.segments.size()), std::min(nodes, segments));
      const auto size = [](const CheckpointSegment& s) { return s.end_node - s.start_node; };
      EXPECT_LE(size(config.segments.front()) - size(config.segments.back()), 1);
    }
  }
}

TEST(NodeSegments, ShouldCheckpointAndPlan) {
  const CheckpointConfig config{{{2, 4}, {7, 9}}};
  for (const int64_t node : {0, 1, 5, 6, 10}) {
    EXPECT_FALSE(config.should_checkpoint(node));
  }
  for (const int64_t node : {2, 3, 4, 7, 8, 9}) {
    EXPECT_TRUE(config.should_checkpoint(node));
  }
  EXPECT_EQ(plan_recomputation(5, CheckpointConfig{{{1, 3}}}), (Plan{false, true, true, true, false}));
  EXPECT_EQ(plan_recomputation(5, CheckpointConfig()), Plan(5, false));
  EXPECT_FALSE(CheckpointConfig().should_checkpoint(100));
}

TEST(NodeSegments, WhatCanNotBeIsAnError) {
  const CheckpointConfig overlapping{{{3, 6}, {0, 3}}};
  const CheckpointConfig reversed{{{4, 2}}};
  const CheckpointConfig negative{{{-1, 2}}};
  for (const CheckpointConfig& config : {overlapping, reversed, negative}) {
    EXPECT_THROW(plan_recomputation(10, config), InvalidArgument);
    EXPECT_THROW(Scope{config}, InvalidArgument);
  }
  EXPECT_THROW(plan_recomputation(5, CheckpointConfig{{{3, 5}}}), InvalidArgument);
  EXPECT_THROW(plan_recomputation(-1, CheckpointConfig()), InvalidArgument);
  EXPECT_NO_THROW(plan_recomputation(6, CheckpointConfig{{{3, 5}, {0, 2}}}));
  Scope scope(CheckpointConfig{{{0, 3}}}, "short");
  const at::Tensor y = torch::ones({2}).requires_grad_().sin().exp();
  try {
    scope.end();
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("segment 0 to 3"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("short"), std::string::npos) << error.what();
  }
  EXPECT_THROW(scope.end(), ScopeError);
}

Tensors network(const Tensors& x) {
  at::Tensor value = x[0];
  for (int i = 0; i < 4; ++i) {
    value = torch::dropout(value.mm(x[1]).tanh().mul(value), 0.1, true);
    value.add_(1);
  }
  return {value, value.sum()};
}

TEST(NodeSegments, CountNodesLeavesTheGeneratorAlone) {
  EXPECT_EQ(count_nodes([](const at::Tensor& x) { return x.sin().exp().sum(); }, torch::ones({3})), 3);
  torch::manual_seed(3);
  const at::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
  const Tensors x = {torch::randn({8, 8}).requires_grad_(), torch::randn({8, 8}).requires_grad_()};
  torch::manual_seed(3);
  const int64_t nodes = count_nodes(network, x);
  EXPECT_GE(nodes, 4 * 5);
  EXPECT_TRUE(same_bits(at::detail::getDefaultCPUGenerator().get_state(), state));
  Scope scope;
  network(x);
  EXPECT_EQ(scope.stats().ops_recorded, nodes);
  EXPECT_EQ(count_nodes(network, x), nodes) << "also inside a scope";
}

TEST(NodeSegments, ScopesExecuteAnyPlanBitForBit) {
  const auto run = [](const std::function<Tensors(const Tensors&)>& forward) {
    torch::manual_seed(5);
    const Tensors x = {torch::randn({8, 8}).requires_grad_(), (torch::randn({8, 8}) / 3).requires_grad_()};
    Outcome outcome;
    backward_of_sum(forward(x), x, outcome);
    outcome.generator = at::detail::getDefaultCPUGenerator().get_state();
    return outcome;
  };
  const Outcome expected = run(network);
  const Tensors probe = {torch::randn({8, 8}).requires_grad_(), torch::randn({8, 8}).requires_grad_()};
  const int64_t nodes = count_nodes(network, probe);
  for (int64_t segments = 1; segments <= nodes; ++segments) {
    const Outcome actual = run([&](const Tensors& x) {
      Scope scope(CheckpointConfig::uniform(nodes, segments));
      Tensors result = network(x);
      scope.end();
      return result;
    });
    EXPECT_EQ(difference(expected, actual), "") << segments;
  }
  // Segments with gaps; the scope ended by its destructor.
  for (int64_t start = 0; start + 6 < nodes; start += 2) {
    const Outcome actual = run([&](const Tensors& x) {
      const Scope scope(CheckpointConfig{{{start, start + 2}, {start + 4, start + 6}}});
      return network(x);
    });
    EXPECT_EQ(difference(expected, actual), "") << start;
  }
}

at::Tensor sines(at::Tensor x, int count) {
  for (int i = 0; i < count; ++i) {
    x = x.sin();
  }
  return x;
}

TEST(NodeSegments, TheBorderIsKeptAndTheInsideRecomputedOnce) {
  constexpr int64_t kBytes = 1024 * 4;
  live_tensor_bytes();
  const at::Tensor x = torch::randn({1024}).requires_grad_();
  const int64_t live = live_tensor_bytes();
  Scope scope(CheckpointConfig::uniform(12, 3));
  at::Tensor y = sines(x, 12);
  scope.end();
  // Of 12 results: two borders and the output.
  EXPECT_EQ(live_tensor_bytes() - live, 3 * kBytes);
  EXPECT_EQ(scope.stats().values_dropped, 9);
  y.sum().backward();
  // Of each segment all but the last result, which is a border.
  EXPECT_EQ(scope.stats().ops_replayed, 9);
  EXPECT_EQ(scope.stats().replays, 3);
  const at::Tensor gradient = x.grad().clone();
  x.mutable_grad().reset();
  sines(x, 12).sum().backward();
  EXPECT_TRUE(same_bits(gradient, x.grad()));
}

TEST(NodeSegments, OutsideTheSegmentsEverythingIsKept) {
  constexpr int64_t kBytes = 1024 * 4;
  live_tensor_bytes();
  const at::Tensor x = torch::randn({1024}).requires_grad_();
  const int64_t live = live_tensor_bytes();
  Scope scope(CheckpointConfig{{{2, 5}}});
  const at::Tensor y = sines(x, 10);
  scope.end();
  EXPECT_EQ(live_tensor_bytes() - live, (10 - 3) * kBytes);
  y.sum().backward();
  EXPECT_EQ(scope.stats().ops_replayed, 3);
}

TEST(NodeSegments, NestWithCheckpointsOfTheUser) {
  const auto run = [](bool encore) {
    torch::manual_seed(5);
    const at::Tensor x = torch::randn({64}).requires_grad_();
    Outcome outcome;
    const auto middle = [](const at::Tensor& in) { return sines(in, 6).exp(); };
    if (encore) {
      // A border in the middle of the checkpoint, and a scope in a scope.
      const Scope scope(CheckpointConfig{{{1, 4}, {5, 9}, {10, 14}}});
      const at::Tensor y = sines(checkpoint(middle, sines(x, 3)), 3);
      const Scope inner(CheckpointConfig::uniform(4, 2));
      backward_of_sum({sines(y, 4)}, {x}, outcome);
    } else {
      backward_of_sum({sines(sines(middle(sines(x, 3)), 3), 4)}, {x}, outcome);
    }
    return outcome;
  };
  EXPECT_EQ(difference(run(false), run(true)), "");
}

}  // namespace
}  // namespace encore::test
