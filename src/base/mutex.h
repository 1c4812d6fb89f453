// The lock of a tape, which nobody waits for with an interpreter's lock in hand.
#pragma once

#include <mutex>

#include <encore/export.h>

namespace encore {

/// What a thread lets go of before it waits for one of our locks, and takes back once it has it. In a Python process
/// that is the GIL: who has a tape's lock may want the GIL, to run a kernel that is written in Python, so who has the
/// GIL must not wait for a tape's lock. The order is our lock first, then the GIL.
struct WaitHooks {
  void* (*let_go)();         // null if there was nothing in hand
  void (*take_back)(void*);  // what let_go() gave, if that was not null
};

/// For the process, once, before the second thread that has a lock of ours.
ENCORE_API void set_wait_hooks(const WaitHooks* hooks);

/// A std::recursive_mutex whose lock() waits by the hooks.
class ENCORE_API RecursiveMutex {
 public:
  void lock() {
    if (!mutex_.try_lock()) {
      wait();
    }
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  void wait();

  std::recursive_mutex mutex_;
};

}  // namespace encore
