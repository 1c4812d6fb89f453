// Steps of very many small ops. Whatever is done at each op for all that is held would show here: these took minutes.
#include "support/oracle.h"

namespace encore::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kOps = 20'000;
#else
constexpr int64_t kOps = 100'000;
#endif
constexpr int64_t kBytes = 1024;  // of a value

at::Tensor gradient_of_chain(const at::Tensor& x) {
  at::Tensor y = x;
  for (int64_t i = 0; i < kOps; ++i) {
    y = i % 2 == 0 ? y.sin() : y.sigmoid();
  }
  return torch::autograd::grad({y.sum()}, {x})[0];
}

TEST(LongChain, AtHalfOfItsMemoryValuesAreGivenUpAndComputedOnce) {
  const at::Tensor x = leaf({kBytes / 4});
  const at::Tensor expected = gradient_of_chain(x);
  MemoryBudget budget = MemoryBudget::fraction(0.5);
  for (int i = 0; i < 2; ++i) {
    const auto step = budget.step();
    EXPECT_TRUE(same_bits(expected, gradient_of_chain(x)));
  }
  const StepReport report = budget.report();
  // sin saves what it reads and sigmoid what it makes, which is the same: every second value is held.
  const int64_t plain_bytes = kOps / 2 * kBytes;
  EXPECT_NEAR(static_cast<double>(report.plain_peak_bytes - report.resting_bytes), static_cast<double>(plain_bytes),
              16.0 * kBytes);
  EXPECT_LE(report.peak_bytes, budget.limit_bytes());
  EXPECT_NEAR(static_cast<double>(budget.limit_bytes()), 0.5 * static_cast<double>(plain_bytes), 16.0 * kBytes);
  // A value comes back by two ops. More is given up at a time than is needed, but little.
  EXPECT_GE(report.evictions, kOps / 4);
  EXPECT_LE(report.evictions, kOps / 4 * 11 / 10);
  EXPECT_LE(report.ops_replayed, 2 * report.evictions);
}

}  // namespace
}  // namespace encore::test
