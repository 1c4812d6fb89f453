// Waiting for a tape's lock lets go of what the hooks name, and only then.
#include "base/mutex.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace encore {
namespace {

std::mutex g_interpreter;  // stands for the GIL
thread_local bool g_has_interpreter = false;
std::atomic<int> g_let_go{0};
std::atomic<int> g_taken_back{0};

void* let_go() {
  if (!g_has_interpreter) {
    return nullptr;
  }
  ++g_let_go;
  g_has_interpreter = false;
  g_interpreter.unlock();
  return &g_interpreter;
}

void take_back(void* held) {
  static_cast<std::mutex*>(held)->lock();
  g_has_interpreter = true;
  ++g_taken_back;
}

constexpr WaitHooks kHooks{&let_go, &take_back};

class Mutex : public ::testing::Test {
 protected:
  Mutex() {
    g_let_go = 0;
    g_taken_back = 0;
    set_wait_hooks(&kHooks);
  }
  ~Mutex() override { set_wait_hooks(nullptr); }
};

TEST_F(Mutex, WithoutWaitingNothingIsLetGoOf) {
  RecursiveMutex mutex;
  const std::lock_guard<std::mutex> interpreter(g_interpreter);
  g_has_interpreter = true;
  {
    const std::lock_guard<RecursiveMutex> lock(mutex);
    const std::lock_guard<RecursiveMutex> again(mutex);
  }
  g_has_interpreter = false;
  EXPECT_EQ(g_let_go, 0);
}

// One thread has the tape's lock and wants the interpreter's, the other the other way round: without the hooks this
// test does not end.
TEST_F(Mutex, WhoeverWaitsLetsTheOwnerHaveTheInterpreter) {
  RecursiveMutex mutex;
  std::atomic<bool> waits{false};
  mutex.lock();
  std::thread saves([&] {
    g_interpreter.lock();
    g_has_interpreter = true;
    waits = true;
    mutex.lock();
    EXPECT_TRUE(g_has_interpreter);
    mutex.unlock();
    g_has_interpreter = false;
    g_interpreter.unlock();
  });
  while (!waits) {
    std::this_thread::yield();
  }
  g_interpreter.lock();  // a kernel in Python that is replayed
  g_interpreter.unlock();
  mutex.unlock();
  saves.join();
  EXPECT_EQ(g_let_go, g_taken_back);
  EXPECT_EQ(g_let_go, 1);
}

TEST_F(Mutex, AThreadWithoutTheInterpreterJustWaits) {
  RecursiveMutex mutex;
  mutex.lock();
  std::thread other([&] {
    mutex.lock();
    mutex.unlock();
  });
  mutex.unlock();
  other.join();
  EXPECT_EQ(g_taken_back, 0);
}

}  // namespace
}  // namespace encore
