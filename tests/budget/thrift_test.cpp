// Which kinds of steps are learnt and planned, and what that may cost.
#include "budget/thrift.h"

#include <gtest/gtest.h>

namespace encore::budget {
namespace {

constexpr size_t kEvents = 100;

TEST(Thrift, CountsHowOftenAndHowLongAgoAKindWasSeen) {
  Thrift thrift;
  EXPECT_EQ(thrift.see(7).count, 1);
  EXPECT_EQ(thrift.see(8).number, 1) << "one kind was there before it";
  EXPECT_EQ(thrift.see(8).streak, 2);
  const Sight again = thrift.see(7);
  EXPECT_EQ(again.count, 2);
  EXPECT_EQ(again.distance, 3);
  EXPECT_EQ(again.number, 0);
  EXPECT_EQ(again.streak, 1);
  EXPECT_EQ(thrift.kinds(), 2);
}

TEST(Thrift, TheFirstTwoKindsAreLearntWhateverItCosts) {
  Thrift thrift;
  thrift.learnt(1000, kEvents);
  EXPECT_TRUE(thrift.may_learn(thrift.see(1), kEvents));
  EXPECT_TRUE(thrift.may_learn(thrift.see(2), kEvents));
  EXPECT_FALSE(thrift.may_learn(thrift.see(3), kEvents));
}

TEST(Thrift, AKindThatComesTwiceInARowIsLearntWhateverItCosts) {
  Thrift thrift;
  for (const uint64_t kind : {1, 2, 3}) {
    thrift.see(kind);
  }
  thrift.learnt(1000, kEvents);
  EXPECT_TRUE(thrift.may_learn(thrift.see(3), kEvents));
}

TEST(Thrift, AKindThatIsNewIsNotLearntWhereNoneHasComeBack) {
  Thrift thrift;
  thrift.trained(1e6);
  for (const uint64_t kind : {1, 2}) {
    thrift.see(kind);
  }
  EXPECT_FALSE(thrift.may_learn(thrift.see(3), kEvents));
  thrift.see(4);
  EXPECT_TRUE(thrift.may_learn(thrift.see(3), kEvents)) << "it came back";
}

TEST(Thrift, LearningStaysWithinItsShareOfTraining) {
  Thrift thrift;
  for (const uint64_t kind : {1, 2, 3, 4, 3}) {
    thrift.see(kind);
  }
  thrift.learnt(1, kEvents - 1);  // 10 ms an event
  thrift.trained(20);
  EXPECT_DOUBLE_EQ(thrift.spent_seconds(), 1);
  const Sight back = thrift.see(4);
  EXPECT_FALSE(thrift.may_learn(back, kEvents)) << "two of twenty seconds";
  thrift.trained(21);
  EXPECT_TRUE(thrift.may_learn(back, kEvents)) << "two of forty-one";
}

/// However much time there is: a steady training must not depend on the clock, nor plan without end.
TEST(Thrift, PlansWhateverTheyCostAreCounted) {
  Thrift thrift;
  const Sight first = thrift.see(1);
  thrift.planned(1000, kEvents);
  EXPECT_TRUE(thrift.may_plan(first, 15, kEvents));
  EXPECT_FALSE(thrift.may_plan(first, 16, kEvents)) << "of a kind";
  for (int i = 1; i < 32; ++i) {
    EXPECT_TRUE(thrift.may_plan(first, 0, kEvents)) << i;
    thrift.planned(0, kEvents);
  }
  EXPECT_FALSE(thrift.may_plan(first, 0, kEvents)) << "in all";
  thrift.trained(1e6);
  EXPECT_TRUE(thrift.may_plan(first, 16, kEvents)) << "within the share";
}

TEST(Thrift, ForgetsWhatWasNotSeenForVeryLong) {
  Thrift thrift;
  thrift.see(1);
  for (uint64_t kind = 2; kind < 10'000; ++kind) {
    thrift.see(kind);
  }
  EXPECT_EQ(thrift.see(1).count, 1);
  EXPECT_EQ(thrift.see(9'999).count, 2);
}

}  // namespace
}  // namespace encore::budget
