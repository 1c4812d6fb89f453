// Numbers that are raised in ranges, against the same done one by one.
#include "plan/levels.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../../bench/plan/small_graphs.h"

namespace encore::plan {
namespace {

void expect_equal(const std::vector<double>& plain, const Levels& levels) {
  double excess = 0;
  int32_t over = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    ASSERT_EQ(levels.at(static_cast<int32_t>(i)), plain[i]) << "at " << i;
    excess += std::max(0.0, plain[i] - levels.limit());
    over += plain[i] > levels.limit() ? 1 : 0;
  }
  EXPECT_EQ(levels.excess(), excess);
  EXPECT_EQ(levels.over(), over);
}

TEST(Levels, EqualPlainNumbers) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    bench::Dice dice(seed);
    const int32_t n = dice.roll(1, 400);
    std::vector<double> plain;
    for (int32_t i = 0; i < n; ++i) {
      plain.push_back(dice.roll(0, 100));
    }
    Levels levels(plain, dice.roll(0, 150));
    for (int32_t change = 0; change < 200; ++change) {
      const int32_t first = dice.roll(0, n - 1);
      const int32_t last = dice.roll(first, n);
      const int32_t by = dice.roll(-40, 40);
      const int32_t what = dice.roll(0, 9);
      if (what == 0) {
        levels.set_limit(dice.roll(0, 150));
      } else if (what < 4) {
        levels.set(first, plain[static_cast<size_t>(first)] = dice.roll(0, 100));
      } else {
        levels.raise(first, last, by);
        for (int32_t i = first; i < last; ++i) {
          plain[static_cast<size_t>(i)] += by;
        }
      }
      expect_equal(plain, levels);
      if (first < last) {
        const auto largest = std::max_element(plain.begin() + first, plain.begin() + last) - plain.begin();
        ASSERT_EQ(levels.largest(first, last), largest);
      }
    }
  }
}

}  // namespace
}  // namespace encore::plan
