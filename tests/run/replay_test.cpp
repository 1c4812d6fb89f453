// Replay by itself: which ops it runs, and from what.
#include <torch/torch.h>

#include <gtest/gtest.h>

#include "run/replay.h"
#include "support/oracle.h"
#include "tape/by_hand.h"

namespace encore::run {
namespace {

using tape::TapeByHand;
using tape::ValueId;

struct Back {
  c10::Storage storage;
  int64_t ops = 0;
};

Back bring_back(TapeByHand& by_hand, ValueId target) {
  Back back;
  ReplayRequest request;
  request.targets = {target};
  request.take = [&](ValueId, const c10::Storage& storage) { back.storage = storage; };
  back.ops = replay(by_hand.residency, request).ops;
  return back;
}

bool has_bytes_of(const c10::Storage& storage, const at::Tensor& tensor) {
  return storage && storage.nbytes() == tensor.nbytes() &&
         std::memcmp(storage.data(), tensor.data_ptr(), storage.nbytes()) == 0;
}

TEST(ReplayAlone, RunsOnlyTheOpsThatTheTargetNeeds) {
  TapeByHand by_hand;
  const at::Tensor source = torch::rand({16});
  at::Tensor a = by_hand.exp(source);
  at::Tensor unrelated = by_hand.exp(a);
  at::Tensor b = by_hand.mul(a, source);
  const ValueId target = by_hand.tape.find(b);
  const at::Tensor expected = b.clone();
  a.reset();
  unrelated.reset();
  b.reset();
  const Back back = bring_back(by_hand, target);
  EXPECT_EQ(back.ops, 2);
  EXPECT_TRUE(has_bytes_of(back.storage, expected));
}

TEST(ReplayAlone, StartsFromTheNearestThatIsThere) {
  TapeByHand by_hand;
  at::Tensor x = torch::rand({16});
  std::vector<at::Tensor> chain;
  for (int i = 0; i < 10; ++i) {
    chain.push_back(x = by_hand.run("aten::sin", "", {x}));
  }
  x.reset();
  const ValueId target = by_hand.tape.find(chain[9]);
  const at::Tensor expected = chain[9].clone();
  for (const int gone : {3, 4, 5, 7, 8, 9}) {
    chain[static_cast<size_t>(gone)].reset();
  }
  const Back back = bring_back(by_hand, target);
  EXPECT_EQ(back.ops, 3);  // from the seventh
  EXPECT_TRUE(has_bytes_of(back.storage, expected));
}

TEST(ReplayAlone, GivesTheVersionThatIsAskedForAndLeavesTheLaterOneAlone) {
  TapeByHand by_hand;
  const at::Tensor source = torch::rand({16});
  const at::Tensor x = by_hand.exp(source);
  const ValueId first = by_hand.tape.find(x);
  const at::Tensor expected = x.clone();
  by_hand.run("aten::mul_", "Tensor", {x, source});
  const at::Tensor now = x.clone();
  const Back back = bring_back(by_hand, first);
  EXPECT_EQ(back.ops, 1);
  EXPECT_TRUE(has_bytes_of(back.storage, expected));
  EXPECT_TRUE(test::same_bits(x, now));
}

TEST(ReplayAlone, RepeatsTheWritesUpToTheVersionThatIsAskedFor) {
  TapeByHand by_hand;
  const at::Tensor source = torch::rand({16});
  at::Tensor x = by_hand.exp(source);
  by_hand.run("aten::mul_", "Tensor", {x, source});
  by_hand.run("aten::add_", "Tensor", {x, source, 1});
  const ValueId last = by_hand.tape.find(x);
  const at::Tensor expected = x.clone();
  x.reset();
  const Back back = bring_back(by_hand, last);
  EXPECT_EQ(back.ops, 3);
  EXPECT_TRUE(has_bytes_of(back.storage, expected));
}

}  // namespace
}  // namespace encore::run
