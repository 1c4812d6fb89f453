// Threads of the function's own that write to its buffers: nobody records them, but their writes show.
#include <thread>

#include <ATen/record_function.h>

#include "support/oracle.h"

namespace encore::test {
namespace {

using HelperThreads = EveryMode;

/// While it lives, the first `fill_` of this thread finds another thread writing beside it.
class WriteBeside {
 public:
  explicit WriteBeside(std::function<void()> write) {
    g_write = std::move(write);
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&WriteBeside::on_start));
  }
  ~WriteBeside() {
    at::removeCallback(handle_);
    g_write = nullptr;
  }
  WriteBeside(const WriteBeside&) = delete;
  WriteBeside& operator=(const WriteBeside&) = delete;

 private:
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
    if (g_write && std::string(call.name()) == "aten::fill_") {
      const auto write = std::exchange(g_write, nullptr);
      std::thread(write).join();
    }
    return nullptr;
  }
  inline static thread_local std::function<void()> g_write;
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
          const WriteBeside beside([rows] {
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

ENCORE_IN_EVERY_MODE(HelperThreads);

}  // namespace
}  // namespace encore::test
