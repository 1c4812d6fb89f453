// The peak really falls, values are freed as backward goes, and nothing stays: exact bytes, measured at the allocator.
#include "support/oracle.h"

namespace encore::test {
namespace {

constexpr int64_t kBytes = 64 * 1024;  // one value of the models below

at::Tensor block(const at::Tensor& in) {
  return in.tanh().sigmoid().tanh().sigmoid().tanh() * 0.5;
}

class Memory : public ::testing::TestWithParam<Recompute> {
 protected:
  CheckpointOptions options() const {
    CheckpointOptions options;
    options.recompute = GetParam();
    return options;
  }

  /// Peak above the start of forward and backward of `blocks` blocks.
  int64_t peak(int blocks, bool checkpointed, bool retain_graph = false) const {
    const at::Tensor x = torch::randn({kBytes / 4}).requires_grad_();
    const MemoryScope memory;
    at::Tensor y = x;
    for (int i = 0; i < blocks; ++i) {
      y = checkpointed ? checkpoint(options(), block, y) : block(y);
    }
    y = y.sum();
    y.backward({}, retain_graph);
    return memory.peak_growth_bytes();
  }
};

TEST_P(Memory, ThePeakIsTheBlockInputsAndOneBlock) {
  const int64_t plain = peak(16, false);
  const int64_t checkpointed = peak(16, true);
  EXPECT_GE(plain, 16 * 5 * kBytes);
  // 16 outputs of blocks, 5 values of the block that is brought back, and gradients in flight.
  EXPECT_LE(checkpointed, (16 + 5 + 3) * kBytes);
}

TEST_P(Memory, OneMoreBlockCostsOneMoreInput) {
  EXPECT_EQ(peak(17, true) - peak(16, true), kBytes);
  EXPECT_GE(peak(17, false) - peak(16, false), 5 * kBytes);
}

TEST_P(Memory, RetainGraphDoesNotKeepWhatWasBroughtBack) {
  EXPECT_LE(peak(16, true, /*retain_graph=*/true), (16 + 5 + 3) * kBytes);
  const at::Tensor x = torch::randn({kBytes / 4}).requires_grad_();
  at::Tensor y = x;
  for (int i = 0; i < 8; ++i) {
    y = checkpoint(options(), block, y);
  }
  y = y.sum();
  y.backward({}, /*retain_graph=*/true);
  const int64_t once = live_tensor_bytes();
  for (int i = 0; i < 3; ++i) {
    y.backward({}, /*retain_graph=*/true);
    EXPECT_EQ(live_tensor_bytes(), once);
  }
}

TEST_P(Memory, BroughtBackValuesAreFreedStepByStep) {
  const at::Tensor x = torch::randn({kBytes / 4}).requires_grad_();
  std::vector<int64_t> live;
  const auto note = [&live](const at::Tensor&) { live.push_back(live_tensor_bytes()); };
  const at::Tensor y = checkpoint(
                           options(),
                           [&note](const at::Tensor& in) {
                             at::Tensor h = in;
                             for (int i = 0; i < 8; ++i) {
                               h = h.tanh().sigmoid();
                               if (h.requires_grad()) {
                                 h.register_hook(note);
                               }
                             }
                             return h;
                           },
                           x)
                           .sum();
  y.backward();
  ASSERT_EQ(live.size(), 8U);
  EXPECT_GT(live[1], live[7] + 8 * kBytes) << "values are not freed while backward goes";
  for (size_t i = 3; i < live.size(); ++i) {
    EXPECT_LT(live[i], live[i - 1]) << i;
  }
}

TEST_P(Memory, NothingStaysAfterTheStep) {
  const at::Tensor x = torch::randn({kBytes / 4}).requires_grad_();
  x.mutable_grad() = torch::zeros({kBytes / 4});
  const int64_t before = live_tensor_bytes();
  for (int step = 0; step < 3; ++step) {
    at::Tensor y = x;
    for (int i = 0; i < 4; ++i) {
      y = checkpoint(options(), block, y);
    }
    y.sum().backward();
    y = at::Tensor();
    EXPECT_EQ(live_tensor_bytes(), before);
  }
}

TEST_P(Memory, ParametersAreNeverCopied) {
  const at::Tensor x = leaf({1, 256});
  const at::Tensor weight = leaf({256, 256});
  const auto f = [weight](const at::Tensor& in) { return in.mm(weight).sin().mm(weight).exp(); };
  const int64_t weight_bytes = 256 * 256 * 4;
  const MemoryScope memory;
  const at::Tensor y = checkpoint(options(), f, x).sum();
  const at::Tensor gradient = torch::autograd::grad({y}, {x})[0];
  EXPECT_LT(memory.peak_growth_bytes(), weight_bytes / 4);
}

INSTANTIATE_TEST_SUITE_P(Modes, Memory, ::testing::Values(Recompute::kReplay, Recompute::kRerun),
                         [](const auto& test) { return test.param == Recompute::kReplay ? "Replay" : "Rerun"; });

TEST(Storages, SavedTensorsThatShareAStorageAreCountedAndKeptOnce) {
  const at::Tensor x = torch::randn({kBytes / 4}).requires_grad_();
  Scope scope(keep_all());
  const at::Tensor y = x.exp();
  const at::Tensor z = y.view({-1, 4}).sin() + y.view({-1, 4}).cos();
  const at::Tensor w = y.narrow(0, 0, 8).sin();
  const ScopeStats stats = scope.stats();
  EXPECT_EQ(stats.values_kept, 1) << scope.dump();
  EXPECT_EQ(stats.bytes_kept, kBytes);
}

TEST(Storages, TheStatsAgreeWithTheAllocator) {
  const at::Tensor x = torch::randn({kBytes / 4}).requires_grad_();
  const int64_t before = live_tensor_bytes();
  Scope scope(keep_all());
  at::Tensor y = block(block(x)).sum();
  const int64_t kept = live_tensor_bytes() - before;
  EXPECT_GE(kept, scope.stats().bytes_kept);
  EXPECT_LT(kept, scope.stats().bytes_kept + 1024);  // the sum, and numbers wrapped as tensors
  Scope dropping(drop_all());
  const int64_t middle = live_tensor_bytes();
  at::Tensor z = block(block(x)).sum();
  EXPECT_LT(live_tensor_bytes() - middle, 1024);
  EXPECT_GE(dropping.stats().bytes_dropped, 10 * kBytes);
  EXPECT_EQ(dropping.stats().bytes_kept, 0);
}

TEST(Storages, ACheckpointThatSavedNothingShowsInTheStats) {
  const at::Tensor x = leaf({64});
  Scope scope;
  const at::Tensor y = checkpoint([](const at::Tensor& in) { return in + 1; }, x);
  EXPECT_EQ(scope.stats().values_dropped, 0);
  EXPECT_EQ(scope.stats().bytes_dropped, 0);
  EXPECT_EQ(scope.stats().ops_recorded, 1);
}

}  // namespace
}  // namespace encore::test
