// Masks held as bits: what comes back is what was drawn, nothing is drawn again, and the bits take what they should.
#include "support/oracle.h"

namespace encore::test {
namespace {

CheckpointOptions packing(const Policy& policy = pack_masks()) {
  CheckpointOptions options;
  options.policy = policy;
  return options;
}

Policy pack_everything() {
  return Policy([](const ValueInfo&) { return std::nullopt; }, Action::kPack);
}

at::Tensor dropout_block(const at::Tensor& x) {
  return torch::dropout(x.tanh(), 0.4, true).exp();
}

int64_t ops_replayed(const Policy& policy) {
  torch::manual_seed(3);
  const at::Tensor x = leaf({64});
  Scope scope(keep_all());
  checkpoint(packing(policy), dropout_block, x).sum().backward();
  return scope.stats().ops_replayed;
}

TEST(PackedMasks, AreNotDrawnAgain) {
  EXPECT_EQ(ops_replayed(drop_all()) - ops_replayed(pack_masks()), 2) << "bernoulli_, and div_ of what it drew";
}

TEST(PackedMasks, AreWhatACheckpointDoesByDefault) {
  torch::manual_seed(3);
  const at::Tensor x = leaf({64});
  Scope scope(keep_all());
  const at::Tensor y = checkpoint(dropout_block, x);
  EXPECT_EQ(scope.stats().bytes_packed, 8);
}

TEST(PackedMasks, TakeABitAnElementUntilTheirBackwardIsDone) {
  const at::Tensor x = leaf({4096});
  const int64_t bytes = 4096 * 4;
  // An outer scope's tape outlives the checkpoints on it; their bits must not.
  const Scope scope(keep_all());
  const int64_t before = live_tensor_bytes();
  at::Tensor y = checkpoint(dropout_block, x);
  EXPECT_EQ(live_tensor_bytes() - before, bytes + 4096 / 8) << "the result and the bits";
  y.backward(torch::ones_like(y));
  y.reset();
  x.mutable_grad().reset();
  EXPECT_EQ(live_tensor_bytes(), before);
}

TEST(PackedMasks, OfEveryTypeAndSizeComeBackBitForBit) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const int64_t size : {0, 1, 7, 8, 9, 63, 64, 65, 1000, 300001}) {
      const auto step = [&, type = type, size = size](bool checkpointed) {
        torch::manual_seed(static_cast<uint64_t>(size));
        const at::Tensor x = torch::randn({size}).to(type).requires_grad_();
        const auto f = [](const at::Tensor& in) { return torch::dropout(in * 2, 0.3, true).sin(); };
        const at::Tensor y = checkpointed ? checkpoint(f, x) : f(x);
        y.sum().backward();
        return x.grad();
      };
      EXPECT_TRUE(same_bits(step(false), step(true))) << type << " of " << size;
    }
  }
}

class PackingPolicies : public ::testing::TestWithParam<bool> {
 protected:
  /// The gradient under pack_masks(), or with everything packed that can be, is that of the plain run.
  static void expect_same(const std::function<at::Tensor(const at::Tensor&)>& f) {
    const auto step = [&](bool checkpointed) {
      torch::manual_seed(5);
      const at::Tensor x = leaf({33, 7});
      CheckpointOptions options = packing(GetParam() ? pack_everything() : pack_masks());
      options.determinism_check = DeterminismCheck::kValues;
      const at::Tensor y = checkpointed ? checkpoint(options, f, x) : f(x);
      Outcome outcome;
      for (const bool retain : {true, false}) {
        y.backward(torch::ones_like(y), retain);
        outcome.add("gradient", x.grad().clone());
      }
      outcome.generator = at::detail::getDefaultCPUGenerator().get_state();
      return outcome;
    };
    EXPECT_EQ(difference(step(false), step(true)), "");
  }
};

TEST_P(PackingPolicies, OnMasksOfFloats) {
  expect_same(dropout_block);
}
TEST_P(PackingPolicies, OnBooleans) {
  expect_same([](const at::Tensor& x) { return torch::where(x.tanh() > 0.1, x.sin(), x.cos()); });
}
TEST_P(PackingPolicies, OnWhatHasMoreThanTwoKindsOfElements) {
  expect_same([](const at::Tensor& x) { return (x.sin() * torch::randn_like(x)) * torch::rand_like(x); });
}
TEST_P(PackingPolicies, OnMasksOfZerosOrOfOnes) {
  expect_same([](const at::Tensor& x) {
    return x.sin() * torch::empty_like(x).bernoulli_(0.0) + x.cos() * torch::empty_like(x).bernoulli_(1.0);
  });
}
TEST_P(PackingPolicies, OnNegativeZeros) {
  expect_same([](const at::Tensor& x) { return x.sin() * -torch::empty_like(x).bernoulli_(0.5); });
}
TEST_P(PackingPolicies, OnAPartOfAStorage) {
  expect_same([](const at::Tensor& x) {
    at::Tensor mask = torch::zeros_like(x);
    mask.slice(0, 3, 20).bernoulli_(0.5);
    return x.sin() * mask.slice(0, 5, 30).sum() + x.tanh() * mask;
  });
}
TEST_P(PackingPolicies, OnMasksChangedInPlaceBeforeAndAfterTheyWereSaved) {
  expect_same([](const at::Tensor& x) {
    const at::Tensor mask = torch::empty_like(x).bernoulli_(0.5).mul_(3);
    const at::Tensor unused = x.sin() * mask;  // its backward, which would refuse, never runs
    mask.slice(0, 0, 2).add_(torch::rand({2, 7}));
    return x.cos() * mask;
  });
}
TEST_P(PackingPolicies, OnMasksThatOthersAreMadeOf) {
  expect_same([](const at::Tensor& x) {
    const at::Tensor mask = torch::empty_like(x).bernoulli_(0.5);
    return x.sin() * mask * (mask + torch::rand_like(x)) * (1 - mask);
  });
}
TEST_P(PackingPolicies, OnMasksInANestedCheckpoint) {
  expect_same([](const at::Tensor& x) { return checkpoint(dropout_block, dropout_block(x).sin()); });
}
INSTANTIATE_TEST_SUITE_P(, PackingPolicies, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Everything" : "Masks"; });

TEST(PackedMasks, OfWhichAPartWasSavedFirstComeBackOnce) {
  torch::manual_seed(3);
  const at::Tensor x = leaf({8, 8});
  Scope scope(keep_all());
  const at::Tensor y = checkpoint(
      [](const at::Tensor& in) {
        const at::Tensor mask = torch::empty_like(in).bernoulli_(0.5);
        return (in.sin() * mask.select(0, 0)).exp() * mask;
      },
      x);
  y.sum().backward();
  EXPECT_EQ(scope.stats().bytes_packed, 8);
  EXPECT_EQ(scope.stats().replays, 1);
  EXPECT_EQ(scope.stats().ops_replayed, 3) << "sin, mul, exp";
}

TEST(PackedMasks, AreRecomputedIfMarked) {
  const at::Tensor x = leaf({8, 8});
  Scope scope(pack_masks());
  const at::Tensor mask = torch::empty_like(x).bernoulli_(0.5);
  const at::Tensor y = x.sin() * mask;
  EXPECT_EQ(scope.stats().bytes_packed, 8);
  static_cast<void>(checkpoint(mask));
  EXPECT_EQ(scope.stats().bytes_packed, 0);
  EXPECT_EQ(scope.stats().values_kept, 0);
  EXPECT_EQ(scope.stats().bytes_kept, 0);
}

TEST(PackedMasks, GoWithWhatElseIsKept) {
  torch::manual_seed(3);
  const at::Tensor x = leaf({16, 16});
  const at::Tensor w = leaf({16, 16});
  Scope scope(keep_all());
  const at::Tensor y = checkpoint(
      packing(keep_matmuls() | pack_masks()), [&](const at::Tensor& in) { return dropout_block(in.mm(w)).mm(w); }, x);
  const ScopeStats stats = scope.stats();
  EXPECT_EQ(stats.bytes_packed, 16 * 16 / 8);
  y.sum().backward();
  EXPECT_EQ(scope.stats().ops_replayed, 4) << "mm, which nobody saved, tanh, mul by the mask, exp";
}

}  // namespace
}  // namespace encore::test
