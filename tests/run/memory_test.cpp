// Live and peak bytes are exact, whoever allocates and frees.
#include <thread>

#include "support/torch_pch.h"

namespace encore::test {
namespace {

// Made before anything asks for bytes, so by LibTorch's own allocator.
at::Tensor g_early = torch::ones({1000});

TEST(MemoryBytes, TensorsMadeBeforeTheTakeOverAreFreedRightlyAndNotCounted) {
  const int64_t before = live_tensor_bytes();
  EXPECT_EQ(g_early.sum().item<float>(), 1000);
  g_early = at::Tensor();
  EXPECT_EQ(live_tensor_bytes(), before);
}

TEST(MemoryBytes, LiveBytesAreWhatStoragesAskFor) {
  const int64_t before = live_tensor_bytes();
  at::Tensor a = torch::empty({3}, torch::kDouble);
  EXPECT_EQ(live_tensor_bytes() - before, 24);
  const at::Tensor view = a.narrow(0, 1, 1);
  EXPECT_EQ(live_tensor_bytes() - before, 24);
  a.resize_({5});
  EXPECT_EQ(live_tensor_bytes() - before, 40);
  a = at::Tensor();
  EXPECT_EQ(live_tensor_bytes() - before, 40) << "the view keeps it";
}

TEST(MemoryBytes, ForeignMemoryAndEmptyTensorsAreNotCounted) {
  const int64_t before = live_tensor_bytes();
  std::vector<float> buffer(100);
  const at::Tensor blob = torch::from_blob(buffer.data(), {100});
  const at::Tensor empty = torch::empty({0});
  EXPECT_EQ(live_tensor_bytes(), before);
}

TEST(MemoryBytes, ThePeakIsTheMostAtOnce) {
  const MemoryScope scope;
  { const at::Tensor a = torch::empty({100}, torch::kByte); }
  {
    const at::Tensor a = torch::empty({70}, torch::kByte);
    const at::Tensor b = torch::empty({60}, torch::kByte);
  }
  const at::Tensor c = torch::empty({10}, torch::kByte);
  EXPECT_EQ(scope.peak_growth_bytes(), 130);
  EXPECT_EQ(scope.peak_bytes(), scope.start_bytes() + 130);
}

TEST(MemoryBytes, ScopesNestAndOverlap) {
  auto first = std::make_unique<MemoryScope>();
  const at::Tensor a = torch::empty({100}, torch::kByte);
  const auto second = std::make_unique<MemoryScope>();
  { const at::Tensor b = torch::empty({50}, torch::kByte); }
  EXPECT_EQ(first->peak_growth_bytes(), 150);
  first.reset();
  { const at::Tensor c = torch::empty({70}, torch::kByte); }
  EXPECT_EQ(second->peak_growth_bytes(), 70);
  const MemoryScope third;
  EXPECT_EQ(third.peak_growth_bytes(), 0);
}

TEST(MemoryBytes, ResettingThePeakLeavesScopesAlone) {
  const MemoryScope scope;
  { const at::Tensor a = torch::empty({1000}, torch::kByte); }
  reset_peak_tensor_bytes();
  EXPECT_EQ(peak_tensor_bytes(), live_tensor_bytes());
  EXPECT_EQ(scope.peak_growth_bytes(), 1000);
  { const at::Tensor a = torch::empty({10}, torch::kByte); }
  EXPECT_EQ(peak_tensor_bytes(), live_tensor_bytes() + 10);
}

TEST(MemoryBytes, ThreadsAreCountedTogether) {
  const int64_t before = live_tensor_bytes();
  std::vector<std::thread> threads;
  std::vector<at::Tensor> tensors(4);
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&tensors, i] {
      for (int round = 0; round < 200; ++round) {
        tensors[i] = torch::empty({1000 + static_cast<int64_t>(i)}, torch::kByte);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(live_tensor_bytes() - before, 4006);
  tensors.clear();
  EXPECT_EQ(live_tensor_bytes(), before);
}

TEST(MemoryBytes, DevicesWithoutStatisticsAreRefused) {
  EXPECT_THROW(live_tensor_bytes(c10::Device(c10::kCUDA, 0)), SlotError);
}

TEST(MemoryBytes, ConvolutionsOfOneDnnWork) {
  const int64_t before = live_tensor_bytes();
  {
    const at::Tensor x = torch::randn({2, 8, 16, 16}).requires_grad_();
    torch::conv2d(x, torch::randn({8, 8, 3, 3})).sum().backward();
    EXPECT_TRUE(x.grad().defined());
  }
  EXPECT_EQ(live_tensor_bytes(), before);
}

}  // namespace
}  // namespace encore::test
