// Where the state of threads lives.
#include "record/thread.h"

#include <type_traits>

namespace encore::record {
namespace {

static_assert(std::is_trivially_destructible_v<ThreadState>);
thread_local ThreadState g_thread;
thread_local std::vector<BackwardRun*> g_backwards;

thread_local bool g_ends = false;  // good to the very end, too

struct End {
  ~End() { g_ends = true; }
};

}  // namespace

at::CallbackHandle Observer::put_on(const at::RecordFunctionCallback& callback) {
  const at::CallbackHandle handle = at::addThreadLocalCallback(callback);
  static thread_local const End end;  // made after LibTorch's variable, so it goes before it
  static_cast<void>(end);
  return handle;
}

void Observer::take_off(at::CallbackHandle handle) {
  if (!g_ends) {
    at::removeCallback(handle);
  }
}

ThreadState& this_thread() {
  return g_thread;
}

std::vector<BackwardRun*>& backwards_of_this_thread() {
  return g_backwards;
}

}  // namespace encore::record
