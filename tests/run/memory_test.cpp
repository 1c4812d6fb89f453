// Live and peak bytes are exact, whoever allocates and frees.
#include <atomic>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <c10/core/CPUAllocator.h>

#include "support/torch_pch.h"

#include "run/allocator.h"

namespace encore::test {
namespace {

// Made before main(), when nobody has asked for bytes yet.
at::Tensor g_early = torch::ones({1000});

TEST(MemoryBytes, WhatWasMadeBeforeAnybodyAskedIsCountedToo) {
  const int64_t before = live_tensor_bytes();
  EXPECT_GE(before, 4000);
  g_early = at::Tensor();
  EXPECT_EQ(live_tensor_bytes(), before - 4000);
}

/// As tensors are that were made before the library was loaded.
at::Tensor made_by_libtorch(int64_t nbytes) {
  c10::Allocator* allocator = c10::GetDefaultCPUAllocator();
  c10::Storage storage(c10::Storage::use_byte_size_t(), static_cast<size_t>(nbytes),
                       allocator->allocate(static_cast<size_t>(nbytes)), allocator, /*resizable=*/true);
  return torch::empty({0}, torch::kByte).set_(storage, 0, {nbytes}, {1});
}

TEST(MemoryBytes, WhatLibTorchsOwnAllocatorMadeIsCountedOnceItIsSeen) {
  const int64_t before = live_tensor_bytes();
  at::Tensor early = made_by_libtorch(1000);
  EXPECT_EQ(live_tensor_bytes(), before);
  EXPECT_TRUE(run::adopt(early.storage()));
  EXPECT_TRUE(run::adopt(early.storage()));
  EXPECT_EQ(live_tensor_bytes(), before + 1000);
  const at::Tensor view = early.narrow(0, 10, 10);
  early = at::Tensor();
  EXPECT_EQ(live_tensor_bytes(), before + 1000) << "the view keeps it";
  std::vector<char> buffer(100);
  EXPECT_FALSE(run::adopt(torch::from_blob(buffer.data(), {100}, torch::kByte).storage()));
  at::Tensor gone = made_by_libtorch(500);
  run::adopt(gone.storage());
  gone = at::Tensor();
  EXPECT_EQ(live_tensor_bytes(), before + 1000);
}

TEST(MemoryBytes, ForksFindNoLockHeld) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      const BlockReuse reuse;
      while (!stop) {
        torch::empty({300000}, torch::kByte);
        torch::empty({100}, torch::kByte);
      }
    });
  }
  int ended_well = 0;
  for (int i = 0; i < 30; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);  // kills a child that hangs
      {
        const at::Tensor large = torch::empty({300000}, torch::kByte);
        const at::Tensor small = torch::empty({100}, torch::kByte);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ended_well += WIFEXITED(status) ? 1 : 0;
  }
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(ended_well, 30);
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
