// Recorders and their threads, and what autograd is given when it asks how to save a tensor.
#include "record/recorder.h"

#include <thread>

#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "record/saved.h"
#include "record/saving_hooks.h"

namespace encore::record {
namespace {

/// Keeps all, and counts what it was asked to.
class Keeps final : public Region {
 public:
  Keeps() : Region(0, nullptr) {}
  std::shared_ptr<Saved> save(tape::ValueId, const at::Tensor& tensor) override {
    ++saves;
    return keep_plainly(tensor, {version_of(tensor), nullptr, {}});
  }
  void enter(tape::ValueId, const std::shared_ptr<Saved>&) override {}
  bool has_entered(tape::ValueId) const override { return true; }
  int saves = 0;
};

/// A recorder for this thread, with one region.
struct Recording {
  Recording() { recorder->push(region); }
  ~Recording() {
    if (!recorder->regions().empty()) {
      recorder->pop();
    }
  }
  size_t ops() const { return residency->tape().ops().size(); }

  std::shared_ptr<store::Residency> residency = std::make_shared<store::Residency>("tape");
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>(residency);
  std::shared_ptr<Keeps> region = std::make_shared<Keeps>();
};

const Recording* g_recording = nullptr;
int g_saves_inside = -1;
std::shared_ptr<Saved> g_saved;

/// An op in the middle of which its own result is saved.
at::Tensor saves_inside(const at::Tensor& tensor) {
  at::Tensor result = at::empty_like(tensor);
  std::memcpy(result.data_ptr(), tensor.data_ptr(), tensor.nbytes());
  g_saved = Recorder::current()->save(result);
  g_saves_inside = g_recording->region->saves;
  return result;
}

TORCH_LIBRARY(encore_record, m) {
  m.def("saves_inside(Tensor tensor) -> Tensor");
}
TORCH_LIBRARY_IMPL(encore_record, CPU, m) {
  m.impl("saves_inside", saves_inside);
}

TEST(Recorder, WatchesItsOwnThreadAsLongAsItIsInstalled) {
  const at::Tensor x = torch::rand({4});
  Recording recording;
  EXPECT_EQ(Recorder::current(), recording.recorder.get());
  at::exp(x);
  EXPECT_EQ(recording.ops(), 1U);
  std::thread([&] {
    EXPECT_EQ(Recorder::current(), nullptr);
    at::exp(x);
  }).join();
  EXPECT_EQ(recording.ops(), 1U);
  recording.recorder->uninstall();
  EXPECT_EQ(Recorder::current(), nullptr);
  at::exp(x);
  EXPECT_EQ(recording.ops(), 1U);
}

TEST(Recorder, StandsBeforeTheOneThatWasThere) {
  const at::Tensor x = torch::rand({4});
  Recording outer;
  {
    Recording inner;
    at::exp(x);
    EXPECT_EQ(inner.ops(), 1U);
  }
  EXPECT_EQ(Recorder::current(), outer.recorder.get());
  at::exp(x);
  EXPECT_EQ(outer.ops(), 1U);
}

TEST(Recorder, PauseAndAsideAreUndoneByTheirEnd) {
  const at::Tensor x = torch::rand({4});
  const Recording recording;
  {
    const Recorder::Pause pause;
    EXPECT_TRUE(Recorder::is_paused());
    at::exp(x);
    {
      const Recorder::Aside aside;
      EXPECT_FALSE(Recorder::is_paused());
      EXPECT_EQ(Recorder::current(), nullptr);
    }
    EXPECT_TRUE(Recorder::is_paused());
  }
  EXPECT_EQ(recording.ops(), 0U);
  at::exp(x);
  EXPECT_EQ(recording.ops(), 1U);
}

TEST(Recorder, GivenUpOnAnotherThreadItStopsWhenItsOwnNextLooks) {
  auto recording = std::make_unique<Recording>();
  const std::weak_ptr<Recorder> recorder = recording->recorder;
  recording->recorder->pop();
  std::thread([&] { Recorder::abandon(std::move(recording->recorder)); }).join();
  EXPECT_FALSE(recorder.expired()) << "its thread may be using it";
  EXPECT_EQ(Recorder::current(), nullptr);
  EXPECT_TRUE(recorder.expired());
  recording->recorder = std::make_shared<Recorder>(recording->residency);  // for the fixture's end
}

/// Where a result belongs is known when its op has ended.
TEST(Recorder, WhatIsSavedWhileItsOpRunsIsDecidedAtTheEnd) {
  const at::Tensor x = torch::rand({4});
  const Recording recording;
  g_recording = &recording;
  const at::Tensor y = c10::Dispatcher::singleton()
                           .findSchemaOrThrow("encore_record::saves_inside", "")
                           .typed<at::Tensor(const at::Tensor&)>()
                           .call(x);
  EXPECT_EQ(g_saves_inside, 0);
  EXPECT_EQ(recording.region->saves, 1);
  EXPECT_EQ(g_saved->get().data_ptr(), y.data_ptr());
  g_saved.reset();
}

TEST(SavingHooks, AreThereWhileARegionIsOpenAndNobodyHasPausedIt) {
  EXPECT_EQ(saving_hooks(), nullptr);
  const Recording recording;
  at::exp(torch::rand({4}));  // with the first op the region opens
  EXPECT_NE(saving_hooks(), nullptr);
  {
    const Recorder::Pause pause;
    EXPECT_EQ(saving_hooks(), nullptr);
  }
  std::thread([] { EXPECT_EQ(saving_hooks(), nullptr); }).join();
  recording.recorder->pop();
  EXPECT_EQ(saving_hooks(), nullptr);
}

TEST(SavingHooks, GiveBackWhatTheRegionSaved) {
  const Recording recording;
  const at::Tensor y = at::exp(torch::rand({4}));
  const auto hooks = saving_hooks();
  ASSERT_NE(hooks, nullptr);
  hooks->call_pack_hook(y);
  EXPECT_EQ(recording.region->saves, 1);
  EXPECT_EQ(hooks->call_unpack_hook().data_ptr(), y.data_ptr());
}

}  // namespace
}  // namespace encore::record
