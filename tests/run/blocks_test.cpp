// Freed blocks are held for reuse, within the process's own peak, and go back to the system at the end.
#include <atomic>
#include <thread>

#include "support/torch_pch.h"

#include "run/allocator.h"
#include "run/blocks.h"
#include "run/process.h"

namespace encore::test {
namespace {

constexpr int64_t kBlock = int64_t{1} << 20;

at::Tensor block(int64_t nbytes = kBlock) {
  return torch::empty({nbytes}, torch::kByte);
}

TEST(BlockReuse, AFreedBlockIsGivenOutAgain) {
  const BlockReuse reuse;
  at::Tensor first = block();
  const void* where = first.data_ptr();
  first = at::Tensor();
  EXPECT_GE(BlockReuse::held_bytes(), kBlock);
  const at::Tensor second = block();
  EXPECT_EQ(second.data_ptr(), where);
  EXPECT_EQ(BlockReuse::held_bytes(), 0);
}

TEST(BlockReuse, HeldAndLiveBytesStayWithinThePeak) {
  const BlockReuse reuse;
  const int64_t before = live_tensor_bytes();
  at::Tensor a = block(4 * kBlock);
  a = at::Tensor();
  const at::Tensor b = block(kBlock);
  EXPECT_LE(BlockReuse::held_bytes() + live_tensor_bytes() - before, 4 * kBlock + 64);
}

TEST(BlockReuse, TheLastScopeGivesEverythingBack) {
  auto outer = std::make_unique<BlockReuse>();
  {
    const BlockReuse inner;
    block();
  }
  EXPECT_GT(BlockReuse::held_bytes(), 0);
  outer.reset();
  EXPECT_EQ(BlockReuse::held_bytes(), 0);
  block();
  EXPECT_EQ(BlockReuse::held_bytes(), 0);
}

TEST(BlockReuse, NeighboursAreJoinedAndCutAgain) {
  const BlockReuse reuse;
  at::Tensor whole = block(8 * kBlock);
  const void* where = whole.data_ptr();
  whole = at::Tensor();
  {
    const at::Tensor first = block(3 * kBlock);
    const at::Tensor second = block(3 * kBlock);
    EXPECT_EQ(first.data_ptr(), where);
    EXPECT_LT(BlockReuse::held_bytes(), 2 * kBlock + 4096) << "both were cut from the one";
  }
  whole = block(8 * kBlock);
  EXPECT_EQ(whole.data_ptr(), where);
  EXPECT_EQ(BlockReuse::held_bytes(), 0);
}

TEST(BlockReuse, WhatIsGivenBackLeavesTheProcess) {
  const BlockReuse reuse;
  const int64_t before = run::process_bytes();
  block(64 * kBlock).fill_(1);
  EXPECT_GE(run::process_bytes(), before + 64 * kBlock) << "held for the next one";
  run::Blocks::instance().give_back();
  EXPECT_LE(run::process_bytes(), before + kBlock);
}

TEST(BlockReuse, ThreadsShareTheBlocks) {
  const BlockReuse reuse;
  const int64_t before = live_tensor_bytes();
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int64_t round = 0; round < 300; ++round) {
        at::Tensor t = block(kBlock + (round + i) % 5 * 4096);
        t.fill_(1);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(live_tensor_bytes(), before);
}

/// Lets go of one tensor at each call, and refuses when none is left.
class Shedder final : public run::Limiter {
 public:
  void make_room(int64_t shortage, int64_t /*nbytes*/) override {
    EXPECT_GT(shortage, 0);
    if (tensors.empty()) {
      throw BudgetError("full");
    }
    tensors.pop_back();
  }
  std::vector<at::Tensor> tensors;
};

TEST(Limit, IsKeptToTheByte) {
  const int64_t before = live_tensor_bytes();
  const auto shedder = std::make_shared<Shedder>();
  shedder->tensors = {block(), block(), block()};
  const MemoryScope scope;
  run::Meter::instance().set_limit(before + 4 * kBlock, shedder);
  at::Tensor fits = block();
  EXPECT_EQ(shedder->tensors.size(), 3);
  at::Tensor one_byte_more = block(1);
  EXPECT_EQ(shedder->tensors.size(), 2);
  EXPECT_THROW(block(5 * kBlock), BudgetError);
  run::Meter::instance().set_limit(0, nullptr);
  EXPECT_EQ(scope.peak_bytes(), before + 4 * kBlock);
  EXPECT_EQ(live_tensor_bytes(), before + kBlock + 1);
}

TEST(Limit, HeldBlocksCountToo) {
  const BlockReuse reuse;
  const int64_t before = live_tensor_bytes();
  run::Meter::instance().set_limit(before + 4 * kBlock, std::make_shared<Shedder>());
  block(3 * kBlock);
  const at::Tensor other = block(2 * kBlock);
  run::Meter::instance().set_limit(0, nullptr);
  EXPECT_LE(BlockReuse::held_bytes(), 2 * kBlock);
}

TEST(Accounts, TrackedBytesStayTrackedUntilTheyAreFreed) {
  run::Meter& meter = run::Meter::instance();
  const int64_t before = meter.live(run::Account::kTracked);
  at::Tensor tensor = block();
  EXPECT_TRUE(run::track(tensor.storage()));
  EXPECT_FALSE(run::track(tensor.storage()));
  EXPECT_EQ(meter.live(run::Account::kTracked), before + kBlock);
  tensor = at::Tensor();
  EXPECT_EQ(meter.live(run::Account::kTracked), before);
  {
    const run::AccountScope scope(run::Account::kReplayed);
    const int64_t other = meter.live(run::Account::kOther);
    tensor = block();
    EXPECT_EQ(meter.live(run::Account::kOther), other);
  }
  std::vector<char> buffer(100);
  EXPECT_FALSE(run::track(torch::from_blob(buffer.data(), {100}, torch::kByte).storage()));
}

TEST(Accounts, WhatIsBornAndStaysIsKnownByItsMoment) {
  const MemoryScope watching;
  run::Meter& meter = run::Meter::instance();
  const at::Tensor older = block();
  meter.begin_births();
  const at::Tensor stays = block();
  meter.set_moment(2);
  block();
  const at::Tensor tracked = block();
  run::track(tracked.storage());
  const at::Tensor stays_too = block(100);
  EXPECT_EQ(meter.end_births(), (std::vector<int64_t>{kBlock, 0, 100}));
}

TEST(Accounts, BytesOfOtherThreadsAreKnown) {
  run::Meter& meter = run::Meter::instance();
  const uint8_t mine = run::Meter::slot_of_this_thread();
  const int64_t before = meter.live_of_other_threads(mine);
  at::Tensor theirs;
  std::thread([&] { theirs = block(); }).join();
  const at::Tensor ours = block();
  EXPECT_EQ(meter.live_of_other_threads(mine), before + kBlock);
  theirs = at::Tensor();
  EXPECT_EQ(meter.live_of_other_threads(mine), before);
}

TEST(Accounts, NothingIsLostWhenCountingChangesSides) {
  const int64_t before = live_tensor_bytes();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      std::vector<at::Tensor> tensors;
      while (!stop) {
        tensors.push_back(block(100));
        if (tensors.size() > 50) {
          tensors.erase(tensors.begin(), tensors.begin() + 25);
        }
      }
    });
  }
  for (int i = 0; i < 2000; ++i) {
    const MemoryScope watching;
    EXPECT_GE(watching.start_bytes(), before);
  }
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(live_tensor_bytes(), before);
}

}  // namespace
}  // namespace encore::test
