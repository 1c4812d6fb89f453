// Backwards that nest, what is released with them, and recording meanwhile.
#include "record/backward.h"

#include <thread>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace encore::record {
namespace {

TEST(BackwardRun, TheInnermostIsTheCurrentOneOfItsThread) {
  EXPECT_EQ(BackwardRun::current(), nullptr);
  {
    const BackwardRun outer(BackwardRun::Ops::kUnrecorded);
    {
      const BackwardRun inner(BackwardRun::Ops::kUnrecorded);
      EXPECT_EQ(BackwardRun::current(), &inner);
    }
    EXPECT_EQ(BackwardRun::current(), &outer);
    std::thread([] { EXPECT_EQ(BackwardRun::current(), nullptr); }).join();
  }
  EXPECT_EQ(BackwardRun::current(), nullptr);
}

TEST(BackwardRun, ReleasesWhenItEndsAndOnlyItsOwn) {
  std::string released;
  const auto release = [&](char name) { release_after_backward([&released, name] { released += name; }); };
  release('x');  // no backward runs: there is nothing to wait for
  {
    const BackwardRun outer(BackwardRun::Ops::kUnrecorded);
    release('a');
    {
      const BackwardRun inner(BackwardRun::Ops::kUnrecorded);
      release('b');
      release('c');
    }
    EXPECT_EQ(released, "bc");
    release('d');
  }
  EXPECT_EQ(released, "bcad");
}

TEST(BackwardRun, OnlyOneThatIsRecordedLetsOpsBeRecorded) {
  const at::Tensor x = torch::rand({4});
  const auto recorder = std::make_shared<Recorder>(std::make_shared<store::Residency>("tape"));
  at::exp(x);
  EXPECT_EQ(recorder->tape().ops().size(), 1U);
  for (const auto ops : {BackwardRun::Ops::kUnrecorded, BackwardRun::Ops::kUnobserved}) {
    const BackwardRun run(ops);
    at::exp(x);
    EXPECT_EQ(recorder->tape().ops().size(), 1U);
  }
  {
    const BackwardRun run(BackwardRun::Ops::kRecorded);
    at::exp(x);
  }
  at::exp(x);
  EXPECT_EQ(recorder->tape().ops().size(), 3U);
}

}  // namespace
}  // namespace encore::record
