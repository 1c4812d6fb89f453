// Threads of the function's own that write to its buffers: nobody records them, but their writes show.
#include <thread>

#include <ATen/record_function.h>

#include "support/oracle.h"

namespace encore::test {
namespace {

using HelperThreads = EveryMode;

/// While it lives, the first call of an op on this thread finds another thread at work beside it.
class Beside {
 public:
  Beside(std::string op, std::function<void()> work) {
    g_op = std::move(op);
    g_work = std::move(work);
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&Beside::on_start));
  }
  ~Beside() {
    at::removeCallback(handle_);
    g_work = nullptr;
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

 private:
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
    if (g_work && call.name() == g_op) {
      const auto work = std::exchange(g_work, nullptr);
      std::thread(work).join();
    }
    return nullptr;
  }
  inline static thread_local std::string g_op;
  inline static thread_local std::function<void()> g_work;
  at::CallbackHandle handle_;
};

TEST_P(HelperThreads, AnotherThreadWritesWhileOurOwnWriteRuns) {
  expect_same(
      [] {
        return Tensors{leaf({4, 8})};
      },
      [](const Tensors& x) {
        const at::Tensor rows = torch::zeros({4, 8});
        {
          const at::NoGradGuard no_grad;
          rows.select(0, 0).fill_(1);  // from here on the buffer is watched
          const Beside beside("aten::fill_", [rows] {
            const at::NoGradGuard no_grad_there;
            rows.select(0, 2).fill_(3);
          });
          rows.select(0, 1).fill_(2);
        }
        return Tensors{(x[0].exp() * rows).sin()};
      });
}

TEST_P(HelperThreads, TwoThreadsFillDisjointRows) {
  constexpr int kRuns = 25;
  for (int i = 0; i < kRuns; ++i) {
    expect_same(
        [] {
          return Tensors{leaf({64, 8})};
        },
        [](const Tensors& x) {
          const at::Tensor rows = torch::zeros({64, 8});
          const auto fill = [rows](int64_t first) {
            const at::NoGradGuard no_grad;
            for (int64_t row = first; row < 64; row += 2) {
              rows.select(0, row).fill_(static_cast<double>(row + 1));
            }
          };
          std::thread other(fill, 0);
          fill(1);
          other.join();
          return Tensors{(x[0].exp() * rows).sin()};
        });
  }
}

TEST_P(HelperThreads, AnotherThreadMakesARandomMask) {
  expect_same(
      [] {
        return Tensors{leaf({16, 8})};
      },
      [](const Tensors& x) {
        at::Tensor mask;
        std::thread([&] {
          const at::NoGradGuard no_grad;
          mask = torch::arange(128).view({16, 8}).fmod(3).to(at::kFloat);
        }).join();
        return Tensors{(x[0].exp() * mask).sin()};
      });
}

/// A loader that draws while an op runs does not make that op random, which could not be dropped here.
TEST(HelperThread, ThatDrawsMakesNoOpRandom) {
  const at::Tensor x = leaf({8, 8});
  CheckpointOptions options;
  options.preserve_rng_state = false;
  const Scope scope(keep_all());
  const at::Tensor y = checkpoint(
      options,
      [](const at::Tensor& in) {
        const Beside beside("aten::exp", [] { torch::rand({16}); });
        return in.sin().exp().cos();
      },
      x);
  EXPECT_EQ(scope.stats().values_dropped, 1);
  y.sum().backward();
}

ENCORE_IN_EVERY_MODE(HelperThreads);

}  // namespace
}  // namespace encore::test
