// Byte counts and percentages in a process that writes numbers with a comma.
#include <gtest/gtest.h>

#include <encore/bytes.h>
#include <encore/plan/planner.h>

#include "support/german_locale.h"

namespace encore {
namespace {

TEST(InAGermanLocale, ByteCountsHaveADecimalPoint) {
  const test::GermanLocale german;
  EXPECT_EQ(parse_bytes("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_TRUE(german.is_on());
}

TEST(InAGermanLocale, PercentagesOfABudgetHaveADecimalPoint) {
  const test::GermanLocale german;
  EXPECT_EQ(plan::parse_budget("1.5%", 2000), 30);
  EXPECT_TRUE(german.is_on());
}

}  // namespace
}  // namespace encore
