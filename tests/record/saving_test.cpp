// What stands behind tensors that autograd saves, by itself.
#include <torch/torch.h>

#include <gtest/gtest.h>

#include <encore/error.h>

#include "record/keeping.h"
#include "support/oracle.h"

namespace encore::record {
namespace {

class Saving : public testing::Test {
 protected:
  Saving() {
    recorder->push(std::make_shared<Keeping>(0, nullptr));
    (void)weight.exp();  // from here on it is known as what comes from outside
  }

  at::Tensor weight = torch::ones({4});
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>(std::make_shared<store::Residency>("saves"));
};

TEST_F(Saving, AWeightThatIsSavedAgainIsHeldOnce) {
  const std::shared_ptr<Saved> first = recorder->save(weight);
  EXPECT_EQ(recorder->save(weight), first);
  EXPECT_NE(recorder->save(weight.view({2, 2})), first) << "of other sizes";
  EXPECT_TRUE(test::same_bits(recorder->save(weight)->get(), weight));
}

TEST_F(Saving, AWeightThatAnOpHasChangedIsHeldAnew) {
  const std::shared_ptr<Saved> first = recorder->save(weight);
  weight.mul_(2);
  const std::shared_ptr<Saved> second = recorder->save(weight);
  EXPECT_THROW(first->get(), ChangedError);
  EXPECT_TRUE(test::same_bits(second->get(), weight));
}

TEST_F(Saving, AWeightThatWasChangedUnseenIsHeldAnewOnceAnOpReadsIt) {
  const std::shared_ptr<Saved> first = recorder->save(weight);
  weight.data_ptr<float>()[0] = 7;
  (void)weight.exp();
  const std::shared_ptr<Saved> second = recorder->save(weight);
  EXPECT_THROW(first->get(), ChangedError);
  EXPECT_TRUE(test::same_bits(second->get(), weight));
}

TEST_F(Saving, AWeightThatNobodyNeedsAnyMoreIsNotHeldForTheNextSave) {
  std::weak_ptr<Saved> first = recorder->save(weight);
  EXPECT_TRUE(first.expired());
}

}  // namespace
}  // namespace encore::record
