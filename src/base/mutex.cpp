// Waiting for a lock of ours.
#include "base/mutex.h"

#include <atomic>

namespace encore {
namespace {

std::atomic<const WaitHooks*> g_hooks{nullptr};

}  // namespace

void set_wait_hooks(const WaitHooks* hooks) {
  g_hooks.store(hooks);
}

void RecursiveMutex::wait() {
  const WaitHooks* hooks = g_hooks.load();
  void* held = hooks == nullptr ? nullptr : hooks->let_go();
  mutex_.lock();
  if (held != nullptr) {
    hooks->take_back(held);
  }
}

}  // namespace encore
