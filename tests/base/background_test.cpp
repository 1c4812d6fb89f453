// Work beside the caller's: what comes of it, who waits for it, and what a fork does.
#include "base/background.h"

#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace encore {
namespace {

using Number = Background<int>;
using std::chrono::milliseconds;

TEST(Background, GivesWhatTheWorkMadeOnceAndOnAnotherThread) {
  Number work;
  EXPECT_FALSE(work.take(Number::kForever).has_value()) << "nothing was begun";
  const auto here = std::this_thread::get_id();
  work.start([here](const Number::Alive&) { return std::this_thread::get_id() == here ? 1 : 2; });
  EXPECT_TRUE(work.is_busy());
  EXPECT_EQ(work.take(Number::kForever), 2);
  EXPECT_FALSE(work.is_busy());
  EXPECT_FALSE(work.take(Number::kForever).has_value());
}

TEST(Background, DoesNotWaitLongerThanAsked) {
  Number work;
  std::atomic<bool> may_end{false};
  work.start([&](const Number::Alive&) {
    while (!may_end) {
      std::this_thread::yield();
    }
    return 3;
  });
  EXPECT_FALSE(work.take(milliseconds(0)).has_value());
  EXPECT_TRUE(work.is_busy());
  may_end = true;
  EXPECT_EQ(work.take(Number::kForever), 3);
}

TEST(Background, ThrowsWhatTheWorkThrewToWhoTakesIt) {
  Number work;
  work.start([](const Number::Alive&) -> int { throw std::runtime_error("no plan"); });
  EXPECT_THROW((void)work.take(Number::kForever), std::runtime_error);
  EXPECT_FALSE(work.is_busy());
}

TEST(Background, WorkThatNobodyWantsAnyMoreStops) {
  std::atomic<bool> began{false};
  std::atomic<bool> ended{false};
  {
    Number work;
    work.start([&](const Number::Alive& alive) -> int {
      struct End {
        std::atomic<bool>& ended;
        ~End() { ended = true; }
      } const end{ended};
      began = true;
      for (;;) {
        alive();
      }
    });
    while (!began) {
      std::this_thread::yield();
    }
    Number other = std::move(work);
    EXPECT_FALSE(ended) << "moving goes on with it";
  }
  EXPECT_TRUE(ended);
}

TEST(Background, AChildDoesNotWaitForItsParentsThread) {
  Number work;
  std::atomic<bool> may_end{false};
  work.start([&](const Number::Alive&) {
    while (!may_end) {
      std::this_thread::yield();
    }
    return 5;
  });
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    bool right = !work.is_busy() && !work.take(Number::kForever).has_value();
    {
      Number moved = std::move(work);  // and goes
    }
    work.start([](const Number::Alive&) { return 6; });
    right = right && work.take(Number::kForever) == 6;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  may_end = true;
  EXPECT_EQ(work.take(Number::kForever), 5);
}

}  // namespace
}  // namespace encore
