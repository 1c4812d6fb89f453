// Masks of dropout within a budget: held as bits, rather than drawn again.
#include "budget/net.h"
#include "support/torch_pch.h"

namespace encore::test {
namespace {

constexpr int64_t kWidth = 64;
constexpr int64_t kLayers = 24;
constexpr int64_t kValueBytes = int64_t{256} * kWidth * 8;
constexpr int64_t kBitsBytes = kValueBytes / 64;

/// Drawn slowly enough that bits are cheaper, however slow packing is made by sanitizers.
at::Tensor slow_dropout(const at::Tensor& x) {
  at::Tensor mask = torch::empty_like(x);
  for (int i = 0; i < 20; ++i) {
    mask.normal_();
  }
  return x * mask.bernoulli_(0.99);
}

/// Dropouts alone: what autograd saves of them is their masks.
struct Dropouts {
  explicit Dropouts(int64_t count = kLayers, bool slowly = true) : layers(count), slow(slowly) {
    torch::manual_seed(3);
    weight = torch::randn({kWidth}, torch::kDouble).requires_grad_();
    input = torch::randn({256, kWidth}, torch::kDouble);
  }
  at::Tensor loss() const {
    at::Tensor x = input * weight;
    for (int64_t i = 0; i < layers; ++i) {
      x = slow ? slow_dropout(x) : torch::dropout(x, 0.01, true);
    }
    return x.sum();
  }
  /// The gradient, of numbers drawn from the same seed.
  at::Tensor gradient() {
    torch::manual_seed(4);
    loss().backward();
    at::Tensor gradient = weight.grad().clone();
    weight.mutable_grad() = at::Tensor();
    return gradient;
  }

  int64_t layers;
  bool slow;
  at::Tensor weight;
  at::Tensor input;
};

struct Outcome {
  at::Tensor gradient;
  at::Tensor next_random;
  StepReport report;
};

std::vector<Outcome> run(Dropouts& model, int64_t above_rest, int steps) {
  MemoryBudget budget(live_tensor_bytes() + above_rest);
  std::vector<Outcome> outcomes;
  for (int i = 0; i < steps; ++i) {
    Outcome outcome;
    {
      const auto step = budget.step();
      outcome.gradient = model.gradient();
    }
    outcome.next_random = torch::rand({4});
    outcome.report = budget.report();
    // Results take their part of the limit: they are not what is measured.
    budget.set_limit(budget.limit_bytes() + kWidth * 8 + 4 * 4);
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

void expect_same(Dropouts& model, const std::vector<Outcome>& outcomes) {
  const at::Tensor plain = model.gradient();
  const at::Tensor next_random = torch::rand({4});
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(same_bits(outcome.gradient, plain));
    EXPECT_TRUE(same_bits(outcome.next_random, next_random));
    EXPECT_LE(outcome.report.peak_bytes, outcome.report.limit_bytes);
  }
}

TEST(BudgetPacking, AStepWithoutAPlanBringsMasksBackFromTheirBits) {
  Dropouts model;
  const auto outcomes = run(model, 10 * kValueBytes, 1);
  expect_same(model, outcomes);
  const StepReport& report = outcomes.front().report;
  EXPECT_EQ(report.mode, StepMode::kOnline);
  EXPECT_GT(report.evictions, 0);
  EXPECT_EQ(report.ops_replayed, 0);
  EXPECT_GE(report.plain_peak_bytes, report.resting_bytes + kLayers * kValueBytes);
  EXPECT_LE(report.plain_peak_bytes, report.resting_bytes + (kLayers + 4) * kValueBytes);
}

TEST(BudgetPacking, APlanHoldsMasksAsBits) {
  Dropouts model;
  const auto outcomes = run(model, 10 * kValueBytes, 4);
  expect_same(model, outcomes);
  const StepReport& report = outcomes.back().report;
  EXPECT_EQ(report.mode, StepMode::kPlanned);
  EXPECT_EQ(report.evictions, 0);
  EXPECT_EQ(report.ops_replayed, 0);
  EXPECT_EQ(report.values_dropped, 0);
  EXPECT_GE(report.values_packed, kLayers - 10);
  EXPECT_EQ(report.predicted_peak_bytes, report.peak_bytes);
  const auto packed = std::find_if(report.values.begin(), report.values.end(),
                                   [](const ValueReport& value) { return value.action == "packed"; });
  ASSERT_NE(packed, report.values.end());
  EXPECT_NE(packed->why.find("bits"), std::string::npos) << packed->why;
  EXPECT_NE(report.text().find("in a smaller form"), std::string::npos) << report.text();
}

/// Max-pools of which the indices are two thirds of what they make: a plan holds those in a byte each rather than pool
/// again, or keep less of the rest.
TEST(BudgetPacking, APlanNarrowsTheIndicesOfMaxPools) {
  const at::Tensor input = torch::rand({4, 8, 32, 32});
  torch::manual_seed(3);
  const at::Tensor weight = torch::randn({8, 8, 3, 3}).mul_(0.1).requires_grad_();
  const auto gradient = [&] {
    at::Tensor x = input;
    for (int i = 0; i < 6; ++i) {
      x = torch::conv2d(x, weight, {}, 1, 1);
      x = torch::max_pool2d(x, 9, 1, 4);  // takes much longer than to narrow what it makes, on any machine
    }
    return torch::autograd::grad({x.sum()}, {weight})[0];
  };
  const at::Tensor plain = gradient();
  MemoryBudget budget = MemoryBudget::fraction(0.7);
  for (int i = 0; i < 5; ++i) {
    const auto step = budget.step();
    EXPECT_TRUE(same_bits(gradient(), plain));
  }
  const StepReport report = budget.report();
  EXPECT_EQ(report.mode, StepMode::kPlanned);
  EXPECT_LE(report.peak_bytes, report.limit_bytes);
  EXPECT_GE(report.predicted_peak_bytes, report.peak_bytes);
  const auto is_narrow = [](const ValueReport& value) {
    return value.action == "packed" && value.why.find("'narrow'") != std::string::npos;
  };
  EXPECT_GT(std::count_if(report.values.begin(), report.values.end(), is_narrow), 0) << report.text();
  EXPECT_NE(budget.run_json("pools").find("packed as narrow"), std::string::npos);
}

/// Two hundred masks take three times the memory of one as bits; where there is not so much, numbers are drawn again.
TEST(BudgetPacking, BitsAreGivenUpWhenNothingElseIsLeft) {
  Dropouts model(/*count=*/200, /*slowly=*/false);
  ASSERT_GT(200 * kBitsBytes, 3 * kValueBytes);
  const auto outcomes = run(model, 5 * kValueBytes, 4);
  expect_same(model, outcomes);
  EXPECT_GT(outcomes.front().report.ops_replayed, 0);
  EXPECT_GT(outcomes.back().report.ops_replayed, 0);
}

TEST(BudgetPacking, RandomNumbersOfManyKindsAreNoMasks) {
  Net net;
  const auto body = [&] {
    at::Tensor x = net.input;
    for (const at::Tensor& weight : net.weights) {
      const at::Tensor y = x.matmul(weight);
      x = y * torch::randn_like(y);
    }
    x.square().mean().backward();
  };
  const StepReport report = expect_same(net, body);
  EXPECT_EQ(report.mode, StepMode::kPlanned);
  EXPECT_EQ(report.values_packed, 0);
  EXPECT_GT(report.values_dropped, 0);
}

TEST(BudgetPacking, TruthValuesAreMasks) {
  Net net(/*layers=*/1);
  const auto body = [&] {
    at::Tensor x = net.input.matmul(net.weights.front());
    for (int i = 0; i < 64; ++i) {
      x = x.masked_fill(x > 3 - 0.04 * i, 0.5);
    }
    x.sum().backward();
  };
  const StepReport report = expect_same(net, body);
  EXPECT_EQ(report.mode, StepMode::kPlanned);
  // Which plan is taken depends on times; a number that an op wraps in a tensor may or may not be there at the peak.
  EXPECT_GE(report.predicted_peak_bytes, report.peak_bytes);
  EXPECT_LE(report.predicted_peak_bytes, report.peak_bytes + 8);
  MemoryBudget budget("1GiB");
  {
    const auto step = budget.step();
    body();
  }
  EXPECT_NE(budget.run_json("net").find("\"pack\""), std::string::npos) << "a step without a plan packs them";
}

}  // namespace
}  // namespace encore::test
