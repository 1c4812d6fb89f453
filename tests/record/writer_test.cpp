// What the writer notes of ops that read, write, share and throw.
#include "record/writer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tape/by_hand.h"

namespace encore::record {
namespace {

using tape::TapeByHand;
using tape::ValueId;

/// Begins the op, which then throws before it has run.
void begin_and_abort(TapeByHand& by_hand, const char* name, const char* overload, std::vector<c10::IValue> args) {
  const auto info = tape::OpInfo::of(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
  Writer writer(by_hand.residency);
  tape::PendingOp pending;
  writer.begin(pending, *info, c10::ArrayRef<const c10::IValue>(args.data(), args.size()));
  writer.abort(pending);
}

TEST(Writer, NotesWhatAnOpReadsAndMakes) {
  TapeByHand by_hand;
  const at::Tensor a = torch::rand({4});
  const at::Tensor b = torch::rand({4});
  const at::Tensor product = by_hand.mul(a, b);
  ASSERT_EQ(by_hand.tape.ops().size(), 1U);
  const tape::Op& op = by_hand.tape.op(0);
  ASSERT_EQ(op.tensors.size(), 2U);
  EXPECT_EQ(op.tensors[0].value, by_hand.tape.find(a));
  EXPECT_EQ(op.tensors[1].value, by_hand.tape.find(b));
  EXPECT_TRUE(op.tensors[0].read && op.tensors[1].read);
  EXPECT_TRUE(by_hand.tape.value(by_hand.tape.find(a)).source);
  const tape::Value& made = by_hand.tape.value(by_hand.tape.find(product));
  EXPECT_EQ(made.producer, 0);
  EXPECT_EQ(made.nbytes, 16);
}

TEST(Writer, AnOpThatReadsATensorTwiceReadsOneValue) {
  TapeByHand by_hand;
  const at::Tensor a = torch::rand({4});
  by_hand.mul(a, a);
  EXPECT_EQ(by_hand.tape.num_values(), 2U);
  EXPECT_EQ(by_hand.tape.op(0).tensors[0].value, by_hand.tape.op(0).tensors[1].value);
}

TEST(Writer, AnOpThatThrewLeavesNoOpBehind) {
  TapeByHand by_hand;
  const at::Tensor made = by_hand.exp(torch::rand({4}));
  const ValueId before = by_hand.tape.find(made);
  begin_and_abort(by_hand, "aten::exp", "", {made});
  EXPECT_EQ(by_hand.tape.ops().size(), 1U);
  EXPECT_EQ(by_hand.tape.find(made), before) << "it has only read it";
}

TEST(Writer, WhatAnOpThatThrewWouldHaveWrittenComesFromOutside) {
  TapeByHand by_hand;
  const at::Tensor made = by_hand.exp(torch::rand({4}));
  const ValueId before = by_hand.tape.find(made);
  begin_and_abort(by_hand, "aten::mul_", "Tensor", {made, made});
  EXPECT_NE(by_hand.tape.find(made), before);
  EXPECT_TRUE(by_hand.tape.value(by_hand.tape.find(made)).source) << "part of it may have been written";
}

/// Holds nothing of a value that will be asked for.
class Dropped final : public store::Holder {
 public:
  Dropped(store::Residency& residency, ValueId value) : residency_(residency), value_(value) {
    residency_.add_holder(this);
    residency_.count_dropped(1);
  }
  ~Dropped() override {
    residency_.count_dropped(-1);
    residency_.remove_holder(this);
  }
  Dropped(const Dropped&) = delete;
  Dropped& operator=(const Dropped&) = delete;
  void for_each_needed(bool, const std::function<void(ValueId)>& visit) const override { visit(value_); }

 private:
  store::Residency& residency_;
  ValueId value_;
};

TEST(Writer, ASourceIsCopiedBeforeItIsOverwrittenWhereADroppedValueNeedsIt) {
  for (const bool needed : {true, false}) {
    TapeByHand by_hand;
    const at::Tensor source = torch::rand({1024});
    const at::Tensor made = by_hand.exp(source);
    const at::Tensor unrelated = by_hand.exp(torch::rand({1024}));
    const ValueId before = by_hand.tape.find(source);
    const Dropped dropped(by_hand.residency, by_hand.tape.find(needed ? made : unrelated));
    const at::Tensor then = source.clone();
    by_hand.run("aten::mul_", "Tensor", {source, torch::rand({1024})});
    const c10::Storage copy = by_hand.residency.copy_of(before);
    ASSERT_EQ(static_cast<bool>(copy), needed);
    if (needed) {
      EXPECT_EQ(std::memcmp(copy.data(), then.data_ptr(), then.nbytes()), 0);
      EXPECT_EQ(by_hand.residency.copied_bytes(), 4096);
    }
  }
}

TEST(Writer, AWriteThroughAViewMakesAVersionOfTheWhole) {
  TapeByHand by_hand;
  const at::Tensor made = by_hand.exp(torch::rand({8}));
  const ValueId before = by_hand.tape.find(made);
  by_hand.run("aten::mul_", "Tensor", {made.narrow(0, 0, 4), torch::rand({4})});
  const ValueId after = by_hand.tape.find(made);
  EXPECT_NE(after, before);
  EXPECT_EQ(by_hand.tape.value(after).base, before) << "the other half is what it was";
}

}  // namespace
}  // namespace encore::record
