// A step next to threads that allocate, ask for values and outlive it. Run with the thread sanitizer as well.
#include <atomic>
#include <future>
#include <thread>

#include <dlfcn.h>

#include <torch/library.h>

#include "support/oracle.h"

namespace encore::test {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

/// An operator that says that it draws, and does what the test wants meanwhile.
std::function<at::Tensor()> g_drawing;
at::Tensor draws_slowly(const at::Tensor&, const c10::optional<at::Generator>&) {
  return g_drawing();
}
TORCH_LIBRARY_FRAGMENT(encore_test, m) {
  m.def("draws_slowly(Tensor self, *, Generator? generator=None) -> Tensor");
}
TORCH_LIBRARY_IMPL(encore_test, CPU, m) {
  m.impl("draws_slowly", draws_slowly);
}

at::Tensor loss_of(at::Tensor x, const at::Tensor& weight) {
  for (int i = 0; i < 12; ++i) {
    x = torch::dropout(x.matmul(weight).tanh(), 0.1, true).sigmoid();
  }
  return x.square().mean();
}

struct BudgetThreads : ::testing::Test {
  BudgetThreads() {
    torch::manual_seed(5);
    weight = leaf({64, 64});
    input = torch::randn({512, 64});
    torch::manual_seed(9);
    expected = torch::autograd::grad({loss_of(input, weight)}, {weight})[0];
  }
  at::Tensor weight;
  at::Tensor input;
  at::Tensor expected;
};

TEST_F(BudgetThreads, OtherThreadsMakeRoomWhileTheStepRuns) {
  MemoryBudget budget(live_tensor_bytes() + 4 * kMiB);  // plainly 7.7 MiB
  int64_t evictions = 0;
  for (int i = 0; i < 4; ++i) {
    std::atomic<bool> over{false};
    std::thread other;
    {
      const auto step = budget.step();
      other = std::thread([&] {
        while (!over) {
          try {
            torch::empty({kMiB / 2}, torch::kByte);
          } catch (const BudgetError&) {
            std::this_thread::yield();  // for once there was nothing to give up
          }
        }
      });
      torch::manual_seed(9);
      EXPECT_TRUE(same_bits(expected, torch::autograd::grad({loss_of(input, weight)}, {weight})[0]));
    }
    over = true;
    other.join();
    evictions += budget.report().evictions;
  }
  EXPECT_GT(evictions, 0);
}

/// Random ops in forward, and in every replay; an op of the other thread that needs room while backward waits to draw.
struct BudgetThreadsThatDraw : BudgetThreads {
  at::Tensor noisy_loss() const {
    torch::manual_seed(9);
    at::Tensor x = input;
    for (int i = 0; i < 12; ++i) {
      x = (x.matmul(weight) * torch::rand({512, 64})).sigmoid();  // no mask that could be packed
    }
    return x.square().mean();
  }
  /// What `other` throws, if it is a BudgetError. It is to call `needs_room`.
  std::string refused_while_backward_runs(const std::function<void()>& other) {
    expected = torch::autograd::grad({noisy_loss()}, {weight})[0];
    MemoryBudget budget(live_tensor_bytes() + 2 * kMiB);  // plainly 4.6 MiB
    const auto step = budget.step();
    const at::Tensor loss = noisy_loss();
    std::string refused;
    std::thread thread([&] {
      try {
        other();
      } catch (const BudgetError& error) {
        refused = error.what();
      }
    });
    is_there.get_future().wait();
    const at::Tensor gradient = torch::autograd::grad({loss}, {weight})[0];
    thread.join();
    EXPECT_TRUE(same_bits(expected, gradient));
    return refused;
  }
  at::Tensor needs_room() {
    is_there.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // backward has come to a value that was drawn by then
    return torch::empty({kMiB}, torch::kByte);
  }
  std::promise<void> is_there;
};

TEST_F(BudgetThreadsThatDraw, ARandomOpGetsItsRoomWhileAReplayWaitsToDraw) {
  g_drawing = [&] { return needs_room(); };
  EXPECT_EQ(refused_while_backward_runs([&] {
              const Scope scope;
              c10::Dispatcher::singleton()
                  .findSchemaOrThrow("encore_test::draws_slowly", "")
                  .typed<at::Tensor(const at::Tensor&, const c10::optional<at::Generator>&)>()
                  .call(input, {});
            }),
            "");
}

/// As torch::multinomial does, outside any scope: nobody may wait for it, nor it for anybody.
TEST_F(BudgetThreadsThatDraw, AnAllocationUnderTheGeneratorsLockIsNotWaitedFor) {
  const std::string refused = refused_while_backward_runs([&] {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard<std::mutex> lock(generator.mutex());
    needs_room();
  });
  EXPECT_TRUE(refused.empty() || refused.find("budget: an allocation of 1.0 MiB") == 0) << refused;
}

TEST_F(BudgetThreads, BackwardOnAnotherThreadMayOutliveTheStep) {
  MemoryBudget budget(live_tensor_bytes() + 4 * kMiB);
  for (int i = 0; i < 4; ++i) {
    at::Tensor gradient;
    std::thread other;
    {
      const auto step = budget.step();
      torch::manual_seed(9);
      const at::Tensor loss = loss_of(input, weight);
      other = std::thread([&, loss] { gradient = torch::autograd::grad({loss}, {weight})[0]; });
    }
    other.join();
    EXPECT_TRUE(same_bits(expected, gradient));
  }
}

/// Allocates more than the budget has, again and again.
void allocate_too_much(void* counter) {
  for (int64_t i = 0; i < 500; ++i) {
    try {
      torch::empty({4 * kMiB + i}, torch::kByte);
    } catch (const BudgetError&) {
      ++*static_cast<std::atomic<int64_t>*>(counter);
    }
  }
}

TEST_F(BudgetThreads, WorkersOfAParallelOpMayBeRefusedTogether) {
  // The workers of LibTorch's own parallel ops, without compiling for OpenMP.
  using Parallel = void(void (*)(void*), void*, unsigned threads, unsigned flags);
  auto* const parallel = reinterpret_cast<Parallel*>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  if (parallel == nullptr) {
    GTEST_SKIP() << "this LibTorch does not use GCC's OpenMP";
  }
  MemoryBudget budget(live_tensor_bytes() + kMiB);
  const auto step = budget.step();
  std::atomic<int64_t> refused{0};
  parallel(&allocate_too_much, &refused, 4, 0);
  EXPECT_EQ(refused, 4 * 500);
}

}  // namespace
}  // namespace encore::test
