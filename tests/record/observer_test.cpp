// One callback of LibTorch's a thread, however many want it.
#include "record/observer.h"

#include <thread>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace encore::record {
namespace {

int64_t g_told = 0;

std::unique_ptr<at::ObserverContext> tell(const at::RecordFunction&) {
  ++g_told;
  return nullptr;
}

at::RecordFunctionCallback callback() {
  return at::RecordFunctionCallback(&tell);
}

/// How often the observer is told of one op.
int64_t told_of_an_op() {
  static const at::Tensor tensor = torch::ones({4});
  const int64_t before = g_told;
  at::neg(tensor);
  return g_told - before;
}

TEST(Observer, IsToldOnceForAllOfItsUsersAndAsLongAsThereAreAny) {
  Observer observer;
  EXPECT_EQ(told_of_an_op(), 0);
  observer.add(callback());
  observer.add(callback());
  EXPECT_EQ(told_of_an_op(), 1);
  observer.remove();
  EXPECT_EQ(told_of_an_op(), 1);
  observer.remove();
  EXPECT_EQ(told_of_an_op(), 0);
}

TEST(Observer, RestsForAllOfItsUsers) {
  Observer observer;
  observer.add(callback());
  observer.add(callback());
  const int users = observer.rest();
  EXPECT_EQ(users, 2);
  EXPECT_EQ(told_of_an_op(), 0);
  observer.resume(users, callback());
  EXPECT_EQ(told_of_an_op(), 1);
  observer.remove();
  observer.remove();
  EXPECT_EQ(told_of_an_op(), 0);
}

TEST(Observer, IsNotPutOnAgainForWhoWentWhileItRested) {
  Observer observer;
  observer.add(callback());
  const int users = observer.rest();
  observer.remove();
  observer.resume(users, callback());
  EXPECT_EQ(told_of_an_op(), 0);
}

TEST(Observer, WorksForWhoComesWhileItRests) {
  Observer observer;
  observer.add(callback());
  const int users = observer.rest();
  observer.add(callback());
  EXPECT_EQ(told_of_an_op(), 1);
  observer.remove();
  EXPECT_EQ(told_of_an_op(), 0);
  observer.resume(users, callback());
  EXPECT_EQ(told_of_an_op(), 1);
  observer.remove();
  EXPECT_EQ(told_of_an_op(), 0);
}

/// As a scope of static storage is, which ends after the thread's own variables, and LibTorch's among them.
TEST(Observer, MayBeTakenOffWhenItsThreadHasForgottenIt) {
  struct Last {
    ~Last() {
      observer.remove();
      observer.remove_nodes();
    }
    Observer observer;
  };
  testing::internal::CaptureStderr();
  std::thread([] {
    thread_local Last last;  // made before what LibTorch keeps, so it goes after that
    last.observer.add(callback());
    last.observer.add_nodes(callback());
    EXPECT_EQ(told_of_an_op(), 2);
  }).join();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(told_of_an_op(), 0);
}

}  // namespace
}  // namespace encore::record
