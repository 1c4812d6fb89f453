// Chains of modules in checkpointed segments: where they are cut, and what that saves.
#include <sstream>

#include "support/oracle.h"

namespace encore::test {
namespace {

using Layers = std::vector<std::function<at::Tensor(const at::Tensor&)>>;
using Sizes = std::vector<int64_t>;

TEST(BalancedSegments, NineLayersInFive) {
  EXPECT_EQ(balanced_segments(9, 5), (Sizes{2, 2, 2, 2, 1}));
  EXPECT_EQ(balanced_segments(10, 2), (Sizes{5, 5}));
  EXPECT_EQ(balanced_segments(3, 5), (Sizes{1, 1, 1}));
  EXPECT_EQ(balanced_segments(7, 1), (Sizes{7}));
  EXPECT_THROW(balanced_segments(9, 0), InvalidArgument);
  EXPECT_THROW(balanced_segments(9, -1), InvalidArgument);
  EXPECT_THROW(balanced_segments(0, 2), InvalidArgument);
}

/// The least cost of the dearest segment, by trying every cut.
int64_t least_largest(const Sizes& costs, size_t begin, int64_t segments) {
  int64_t cost = 0;
  int64_t best = std::numeric_limits<int64_t>::max();
  for (size_t end = begin; end < costs.size(); ++end) {
    cost += costs[end];
    if (segments == 1) {
      best = end + 1 == costs.size() ? cost : best;
    } else if (end + 1 < costs.size()) {
      best = std::min(best, std::max(cost, least_largest(costs, end + 1, segments - 1)));
    }
  }
  return best;
}

TEST(BalancedSegments, ByCostAreAsGoodAsTryingEveryCut) {
  EXPECT_EQ(balanced_segments(Sizes(9, 7), 5), (Sizes{2, 2, 2, 2, 1}));
  EXPECT_EQ(balanced_segments(Sizes{9, 1, 1, 1, 1, 1, 1, 1, 1}, 2), (Sizes{1, 8}));
  torch::manual_seed(1);
  for (int round = 0; round < 200; ++round) {
    Sizes costs;
    const int64_t n = torch::randint(1, 9, {1}).item<int64_t>();
    for (int64_t i = 0; i < n; ++i) {
      costs.push_back(torch::randint(0, 20, {1}).item<int64_t>());
    }
    const int64_t segments = torch::randint(1, n + 1, {1}).item<int64_t>();
    const Sizes sizes = balanced_segments(costs, segments);
    ASSERT_EQ(static_cast<int64_t>(sizes.size()), segments);
    int64_t largest = 0;
    size_t next = 0;
    for (const int64_t size : sizes) {
      ASSERT_GE(size, 1);
      int64_t cost = 0;
      for (int64_t i = 0; i < size; ++i) {
        cost += costs[next++];
      }
      largest = std::max(largest, cost);
    }
    ASSERT_EQ(next, costs.size());
    EXPECT_EQ(largest, least_largest(costs, 0, segments));
  }
  EXPECT_THROW(balanced_segments(Sizes{1, -1}, 2), InvalidArgument);
}

TEST(BalancedSegments, LeastPeakOfEqualLayersIsTheSquareRoot) {
  for (const int64_t root : {2, 4, 8, 16}) {
    const std::vector<LayerCost> costs(static_cast<size_t>(root * root), LayerCost{1, 100, 100});
    const Sizes sizes = least_peak_segments(costs);
    // k - 1 borders and n / k inside.
    EXPECT_EQ(*std::max_element(sizes.begin(), sizes.end()) + static_cast<int64_t>(sizes.size()), 2 * root);
  }
}

/// The forward and backward of a chain of `x.sin()`: its peak above the start, and the ops that were run again.
std::pair<int64_t, int64_t> peak_of_chain(int64_t num_layers, int64_t segments, at::Tensor* gradient) {
  const Layers layers(static_cast<size_t>(num_layers), [](const at::Tensor& x) { return x.sin(); });
  torch::manual_seed(2);
  live_tensor_bytes();
  const at::Tensor x = torch::randn({256}).requires_grad_();
  const CheckpointProfiler profiler;
  const MemoryScope memory;
  checkpoint_sequential(layers, segments, x).sum().backward();
  *gradient = x.grad().clone();
  return {memory.peak_growth_bytes(), profiler.report().ops_replayed};
}

TEST(SqrtN, PeakGrowsLikeTheSquareRootWithOneExtraForwardAtMost) {
  constexpr int64_t kBytes = 256 * 4;
  for (const int64_t n : {16, 32, 64, 128, 256, 512, 1024}) {
    const auto root = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(n))));
    at::Tensor gradient;
    const auto [peak, ops] = peak_of_chain(n, root, &gradient);
    // The borders, the segment brought back, and at any moment: an activation, two gradients, two scalars.
    const int64_t longest = (n + root - 1) / root;
    EXPECT_LE(peak, (root + longest + 3) * kBytes + 8) << n;
    EXPECT_LE(ops, n) << n;
    EXPECT_GT(ops, n / 2) << n << ": nothing was recomputed";

    at::Tensor plain_gradient;
    const auto [plain_peak, plain_ops] = peak_of_chain(n, 1, &plain_gradient);  // the last segment runs plainly
    EXPECT_EQ(plain_ops, 0);
    EXPECT_GE(plain_peak, n * kBytes);
    EXPECT_TRUE(same_bits(gradient, plain_gradient));
  }
}

TEST(SqrtN, AlsoWhenTheLastSegmentIsRecomputed) {
  constexpr int64_t kBytes = 256 * 4;
  SequentialOptions options;
  options.checkpoint_last = true;
  const Layers layers(256, [](const at::Tensor& x) { return x.sin(); });
  live_tensor_bytes();
  const at::Tensor x = torch::randn({256}).requires_grad_();
  const CheckpointProfiler profiler;
  const MemoryScope memory;
  checkpoint_sequential(options, layers, 16, x).sum().backward();
  EXPECT_LE(memory.peak_growth_bytes(), (16 + 16 + 3) * kBytes + 8);
  EXPECT_LE(profiler.report().ops_replayed, 256);
  EXPECT_EQ(profiler.report().checkpoint_count, 16);
}

struct Net {
  torch::nn::Sequential modules;
  at::Tensor input;

  Net() {
    torch::manual_seed(6);
    for (int i = 0; i < 5; ++i) {
      modules->push_back(torch::nn::Linear(16, 16));
      modules->push_back(torch::nn::BatchNorm1d(16));
      modules->push_back(torch::nn::Functional(torch::tanh));
      modules->push_back(torch::nn::Dropout(0.3));
    }
    input = torch::randn({8, 16}).requires_grad_();
  }

  Outcome outcome(const at::Tensor& output) {
    Outcome result;
    output.pow(2).sum().backward();
    result.add("output", output);
    result.add("input gradient", input.grad());
    for (const auto& parameter : modules->named_parameters()) {
      result.add(parameter.key(), parameter.value().grad());
    }
    for (const auto& buffer : modules->named_buffers()) {
      result.add(buffer.key(), buffer.value());
    }
    result.generator = at::detail::getDefaultCPUGenerator().get_state();
    return result;
  }
};

TEST(CheckpointSequential, EqualsThePlainModulesBitForBit) {
  Net plain;
  torch::manual_seed(8);
  const Outcome expected = plain.outcome(plain.modules->forward(plain.input));
  for (const Balance balance : {Balance::kCount, Balance::kTime, Balance::kBytes}) {
    for (const Recompute recompute : {Recompute::kReplay, Recompute::kRerun}) {
      for (const int64_t segments : {1, 3, 20, 100}) {
        Net net;
        SequentialOptions options;
        options.balance = balance;
        options.checkpoint.recompute = recompute;
        options.checkpoint_last = segments == 3;
        torch::manual_seed(8);
        const at::Tensor output = checkpoint_sequential(options, net.modules, segments, net.input);
        // Batch norm's statistics are changed again by a function that is called again.
        Outcome actual = net.outcome(output);
        if (recompute == Recompute::kReplay || segments == 1) {
          EXPECT_EQ(difference(expected, actual), "") << segments;
        }
      }
    }
  }
}

TEST(CheckpointSequential, VectorsOfModules) {
  torch::manual_seed(6);
  std::vector<torch::nn::Linear> linears;
  for (int i = 0; i < 6; ++i) {
    linears.emplace_back(16, 16);
  }
  const at::Tensor x = torch::randn({4, 16}).requires_grad_();
  at::Tensor plain = x;
  for (auto& linear : linears) {
    plain = linear(plain);
  }
  const Tensors expected = torch::autograd::grad({plain.sum()}, {x, linears[0]->weight});
  const at::Tensor output = checkpoint_sequential(linears, 3, x);
  const Tensors actual = torch::autograd::grad({output.sum()}, {x, linears[0]->weight});
  EXPECT_TRUE(same_bits(output, plain));
  EXPECT_TRUE(same_bits(actual[0], expected[0]));
  EXPECT_TRUE(same_bits(actual[1], expected[1]));
  EXPECT_THROW(checkpoint_sequential(linears, -1, x), InvalidArgument);
  EXPECT_THROW(checkpoint_sequential(std::vector<torch::nn::Linear>(), 1, x), InvalidArgument);
}

TEST(CheckpointedSequentialModule, KeepsStateDictNames) {
  torch::nn::Sequential named({{"first", torch::nn::Linear(4, 4)}, {"norm", torch::nn::BatchNorm1d(4)}});
  named->push_back(torch::nn::Linear(4, 2));
  CheckpointedSequential checkpointed(named, 2);
  EXPECT_EQ(checkpointed->named_parameters().keys(), named->named_parameters().keys());
  EXPECT_EQ(checkpointed->named_buffers().keys(), named->named_buffers().keys());
  EXPECT_EQ(checkpointed->named_parameters().keys()[0], "first.weight");

  std::stringstream file;
  torch::save(named, file);
  torch::nn::Sequential other({{"first", torch::nn::Linear(4, 4)}, {"norm", torch::nn::BatchNorm1d(4)}});
  other->push_back(torch::nn::Linear(4, 2));
  CheckpointedSequential loaded(other);
  torch::load(loaded, file);
  for (const auto& parameter : loaded->named_parameters()) {
    EXPECT_TRUE(same_bits(parameter.value(), named->named_parameters()[parameter.key()]));
  }
}

TEST(CheckpointedSequentialModule, PlansItselfAndEqualsThePlainModules) {
  Net plain;
  torch::manual_seed(8);
  const Outcome expected = plain.outcome(plain.modules->forward(plain.input));
  for (const int64_t segments : {0, 1, 4}) {
    Net net;
    CheckpointedSequential checkpointed(net.modules, segments);
    torch::manual_seed(8);
    EXPECT_EQ(difference(expected, net.outcome(checkpointed->forward(net.input))), "") << segments;
    const Sizes sizes = checkpointed->segment_sizes(net.input);
    EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}), 20);
    EXPECT_TRUE(segments == 0 ? sizes.size() > 1 : sizes.size() == static_cast<size_t>(segments));
  }
}

TEST(CheckpointedSequentialModule, SavesMemoryOnEveryNetItPlans) {
  live_tensor_bytes();
  torch::nn::Sequential modules;
  for (int i = 0; i < 16; ++i) {
    modules->push_back(torch::nn::Linear(32, 32));
    modules->push_back(torch::nn::Functional(torch::gelu, "none"));
  }
  CheckpointedSequential checkpointed(modules);
  const at::Tensor x = torch::randn({64, 32});
  const auto growth = [&](auto& net) {
    net->forward(x).sum().backward();  // gradients are there from here on
    const MemoryScope memory;
    net->forward(x).sum().backward();
    return memory.peak_growth_bytes();
  };
  const int64_t plain = growth(modules);
  EXPECT_LE(growth(checkpointed), plain / 2);
}

/// Takes two inputs and gives two results.
struct TwoImpl : torch::nn::Module {
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(4, 4));
  std::tuple<at::Tensor, at::Tensor> forward(at::Tensor a, at::Tensor b) { return {linear(a).tanh(), b.exp()}; }
};
TORCH_MODULE(Two);
struct JoinImpl : torch::nn::Module {
  at::Tensor forward(std::tuple<at::Tensor, at::Tensor> in) { return std::get<0>(in) * std::get<1>(in).sin(); }
};
TORCH_MODULE(Join);

TEST(CheckpointedSequentialModule, TakesModulesWithSeveralInputsAndResults) {
  torch::manual_seed(3);
  torch::nn::Sequential modules(Two(), Join(), torch::nn::Linear(4, 4));
  const at::Tensor a = torch::randn({2, 4}).requires_grad_();
  const at::Tensor b = torch::randn({2, 4}).requires_grad_();
  const at::Tensor plain = modules->forward(a, b);
  const Tensors expected = torch::autograd::grad({plain.sum()}, {a, b});
  for (const int64_t segments : {0, 1, 2, 3}) {
    CheckpointedSequential checkpointed(modules, segments);
    const at::Tensor output = checkpointed->forward(a, b);
    EXPECT_TRUE(same_bits(output, plain));
    const Tensors actual = torch::autograd::grad({output.sum()}, {a, b});
    EXPECT_TRUE(same_bits(actual[0], expected[0]));
    EXPECT_TRUE(same_bits(actual[1], expected[1]));
    EXPECT_THROW(checkpointed->forward<int>(a, b), InvalidArgument);
  }
}

TEST(CheckpointedSequentialModule, ClonesAndRunsWithoutGradients) {
  Net net;
  CheckpointedSequential checkpointed(net.modules, 3);
  checkpointed->eval();
  const auto copy = std::dynamic_pointer_cast<CheckpointedSequentialImpl>(checkpointed->clone());
  ASSERT_NE(copy, nullptr);
  EXPECT_FALSE(copy->is_training());
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(same_bits(copy->forward(net.input), net.modules->forward(net.input)));
  EXPECT_THROW(CheckpointedSequential(net.modules, -1), InvalidArgument);
}

}  // namespace
}  // namespace encore::test
