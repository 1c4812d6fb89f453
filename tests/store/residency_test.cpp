// Residency by itself: where values are, and how they get there.
#include <torch/torch.h>

#include <gtest/gtest.h>

#include "store/form.h"
#include "store/residency.h"
#include "tape/by_hand.h"

namespace encore::store {
namespace {

using tape::TapeByHand;
using tape::ValueId;

/// A region with nothing but its list.
struct Keeper final : Holder {
  void for_each_needed(bool dropped_only, const std::function<void(ValueId)>& visit) const override {
    list.for_each(HoldingList::By::kHolder, [&](const Holding& holding) {
      if (!dropped_only || !holding.keeps()) {
        visit(holding.value());
      }
    });
  }
  HoldingList list;
};

class ResidencyAlone : public testing::Test {
 protected:
  ResidencyAlone() { residency.add_holder(&keeper); }
  ~ResidencyAlone() override { residency.remove_holder(&keeper); }

  Where where(ValueId id) const { return residency.where(id); }
  /// A mask that a recorded op made.
  at::Tensor mask() { return by_hand.run("aten::gt", "Scalar", {torch::rand({64}), 0.5}); }

  TapeByHand by_hand;
  Residency& residency = by_hand.residency;
  Keeper keeper;
  Holding holding;
};

TEST_F(ResidencyAlone, WhatIsKeptStaysUntilItIsDropped) {
  at::Tensor made = by_hand.exp(torch::rand({16}));
  const ValueId value = by_hand.tape.find(made);
  EXPECT_EQ(where(value), Where::kLoose);
  residency.add(holding, keeper, keeper.list, value, made.storage());
  EXPECT_EQ(where(value), Where::kKept);
  made.reset();
  EXPECT_TRUE(residency.resident(value));
  EXPECT_EQ(residency.held_values(), std::vector<ValueId>{value});
  residency.drop(holding);
  EXPECT_EQ(where(value), Where::kLoose);
  EXPECT_FALSE(residency.resident(value));
  EXPECT_TRUE(residency.held_values().empty());
  residency.remove(holding, keeper.list);
}

TEST_F(ResidencyAlone, OnlyWhatNobodyElseHasAndReplayCanMakeIsEvicted) {
  const at::Tensor source = torch::rand({16});
  at::Tensor made = by_hand.exp(source);
  const ValueId value = by_hand.tape.find(made);
  residency.add(holding, keeper, keeper.list, value, made.storage());
  EXPECT_FALSE(residency.evict(value)) << "the tensor is still alive";
  made.reset();
  EXPECT_TRUE(residency.evict(value));
  EXPECT_EQ(where(value), Where::kLoose);
  EXPECT_FALSE(residency.evict(by_hand.tape.find(source)));
  residency.remove(holding, keeper.list);
}

TEST_F(ResidencyAlone, WhatCameBackIsRetainedUntilWhoeverWaitsHasHadIt) {
  at::Tensor made = by_hand.exp(torch::rand({16}));
  const ValueId value = by_hand.tape.find(made);
  Holding other;
  residency.add(holding, keeper, keeper.list, value, c10::Storage());
  residency.add(other, keeper, keeper.list, value, c10::Storage());
  residency.came_back(value, tape::copy_storage(made.storage()), keeper, /*pinned=*/false);
  made.reset();
  EXPECT_EQ(where(value), Where::kRetained);
  residency.settle(holding);
  residency.settle(holding);  // has no claim any more
  EXPECT_EQ(where(value), Where::kRetained);
  residency.settle(other);
  EXPECT_EQ(where(value), Where::kLoose);
  residency.remove(holding, keeper.list);
  residency.remove(other, keeper.list);
}

TEST_F(ResidencyAlone, ClaimsFromBeforeAReleaseAreVoid) {
  at::Tensor made = by_hand.exp(torch::rand({16}));
  const ValueId value = by_hand.tape.find(made);
  residency.add(holding, keeper, keeper.list, value, c10::Storage());
  const c10::Storage again = tape::copy_storage(made.storage());
  made.reset();
  residency.came_back(value, again, keeper, /*pinned=*/false);
  residency.release_retained();
  residency.came_back(value, again, keeper, /*pinned=*/true);
  EXPECT_EQ(where(value), Where::kRetained);
  residency.settle(holding);
  EXPECT_EQ(where(value), Where::kRetained) << "pinned";
  residency.let_go(value);
  EXPECT_EQ(where(value), Where::kLoose);
  residency.remove(holding, keeper.list);
}

TEST_F(ResidencyAlone, AFormStaysAsLongAsSomebodySharesInIt) {
  const at::Tensor made = mask();
  const ValueId value = by_hand.tape.find(made);
  const auto form = rest(made);
  ASSERT_TRUE(form);
  residency.add(holding, keeper, keeper.list, value, c10::Storage());
  residency.rest(holding, form);
  residency.pin_form(value, form);
  EXPECT_EQ(where(value), Where::kResting);
  residency.rest(holding, nullptr);
  EXPECT_EQ(where(value), Where::kResting) << "pinned";
  residency.unpin_forms();
  EXPECT_EQ(where(value), Where::kLoose);
  EXPECT_FALSE(residency.has_pinned_forms());
  residency.remove(holding, keeper.list);
}

TEST_F(ResidencyAlone, ASourceIsHeldThenCopiedWhereItIsNeededAndLostWhereItIsNot) {
  const at::Tensor needed = torch::rand({16});
  const at::Tensor not_needed = torch::rand({16});
  const at::Tensor then = needed.clone();
  at::Tensor made = by_hand.exp(needed);
  by_hand.exp(not_needed);
  const ValueId needed_before = by_hand.tape.find(needed);
  const ValueId other_before = by_hand.tape.find(not_needed);
  EXPECT_EQ(where(needed_before), Where::kHeld);
  residency.add(holding, keeper, keeper.list, by_hand.tape.find(made), c10::Storage());
  by_hand.run("aten::mul_", "Scalar", {needed, 2});
  by_hand.run("aten::mul_", "Scalar", {not_needed, 2});
  EXPECT_EQ(where(needed_before), Where::kCopied);
  EXPECT_EQ(residency.copied_bytes(), static_cast<int64_t>(needed.nbytes()));
  EXPECT_EQ(std::memcmp(residency.copy_of(needed_before).data(), then.data_ptr(), then.nbytes()), 0);
  EXPECT_EQ(where(other_before), Where::kLost);
  EXPECT_TRUE(residency.is_out_of_reach(other_before));
  residency.remove(holding, keeper.list);
}

TEST_F(ResidencyAlone, WhatWasComputedFromWhatIsLostIsAConstantIfItIsStillThere) {
  const at::Tensor source = torch::rand({16});
  const at::Tensor made = by_hand.exp(source);
  const ValueId value = by_hand.tape.find(made);
  EXPECT_FALSE(residency.is_constant(value));
  by_hand.run("aten::mul_", "Scalar", {source, 2});
  EXPECT_FALSE(residency.can_be_replayed(value));
  EXPECT_TRUE(residency.is_constant(value));
  EXPECT_FALSE(by_hand.tape.value(value).is_constant()) << "only recording changes the tape";
  EXPECT_TRUE(residency.resident(value));
}

#ifdef ENCORE_CHECKS
TEST_F(ResidencyAlone, AValueThatGoesWhereItCantStopsTheProgram) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const at::Tensor source = torch::rand({16});
  by_hand.exp(source);
  const ValueId value = by_hand.tape.find(source);
  by_hand.run("aten::mul_", "Scalar", {source, 2});
  ASSERT_EQ(where(value), Where::kLost);
  EXPECT_DEATH(residency.hold(value, source.storage()), "a value went where it can't go");
}
#endif

}  // namespace
}  // namespace encore::store
