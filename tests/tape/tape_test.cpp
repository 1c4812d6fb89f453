// The tape by itself: values, versions, and what it takes.
#include <torch/torch.h>

#include <gtest/gtest.h>

#include "tape/by_hand.h"

namespace encore::tape {
namespace {

TEST(Tape, HoldsWhatOpsMadeWeaklyAndWhatComesFromOutsideStrongly) {
  TapeByHand by_hand;
  at::Tensor outside = torch::ones({8});
  at::Tensor made = by_hand.mul(outside, outside);
  const ValueId value = by_hand.tape.find(made);
  const ValueId source = by_hand.tape.find(outside);
  made.reset();
  outside.reset();
  EXPECT_FALSE(by_hand.residency.resident(value));
  EXPECT_TRUE(by_hand.residency.resident(source));
  EXPECT_TRUE(by_hand.tape.value(source).source);
}

TEST(Tape, ViewsShareAValueAndWritesMakeTheNext) {
  TapeByHand by_hand;
  const at::Tensor x = by_hand.exp(torch::ones({8}));
  const at::Tensor half = by_hand.run("aten::slice", "Tensor", {x, 0, 0, 4, 1});
  const ValueId before = by_hand.tape.find(x);
  EXPECT_EQ(by_hand.tape.find(half), before);
  by_hand.run("aten::add_", "Tensor", {half, x.slice(0, 4, 8), 1});
  const ValueId after = by_hand.tape.find(x);
  EXPECT_NE(after, before);
  EXPECT_EQ(by_hand.tape.find(half), after);
  EXPECT_EQ(by_hand.tape.value(after).base, before) << "the other half carries over";
}

TEST(Tape, WhatIsOverwrittenAsAWholeDependsOnNothingBefore) {
  TapeByHand by_hand;
  const at::Tensor x = by_hand.exp(torch::ones({8}));
  const ValueId before = by_hand.tape.find(x);
  by_hand.run("aten::copy_", "", {x, torch::zeros({8}), false});
  const ValueId after = by_hand.tape.find(x);
  EXPECT_NE(after, before);
  EXPECT_EQ(by_hand.tape.value(after).base, kNone);
  EXPECT_TRUE(by_hand.tape.ops().back().writes.front().full);
}

TEST(Tape, AVersionThatMovedByMoreThanOurOwnWritesComesFromOutside) {
  TapeByHand by_hand;
  const at::Tensor x = by_hand.exp(torch::ones({8}));
  by_hand.exp(x);  // its counter is known from here on
  x.mul_(2);       // nobody records this
  EXPECT_EQ(by_hand.tape.find(x), kNone);
  by_hand.exp(x);
  EXPECT_TRUE(by_hand.tape.value(by_hand.tape.find(x)).source);
}

TEST(Tape, AnOpTakesAtMostFourHundredBytes) {
  TapeByHand by_hand;
  const at::Tensor weight = torch::ones({1});
  at::Tensor x = weight;
  constexpr int64_t kOps = 6000;
  for (int64_t i = 0; i < kOps; ++i) {
    x = by_hand.mul(x, weight);
  }
  EXPECT_LE(by_hand.residency.book_bytes(), 400 * kOps);
  EXPECT_GE(by_hand.residency.book_bytes(), 200 * kOps) << "something is not counted";
}

}  // namespace
}  // namespace encore::tape
