// Where the state of threads lives.
#include "record/thread.h"

#include <type_traits>

namespace encore::record {
namespace {

static_assert(std::is_trivially_destructible_v<ThreadState>);
thread_local ThreadState g_thread;
thread_local std::vector<BackwardRun*> g_backwards;

}  // namespace

ThreadState& this_thread() {
  return g_thread;
}

std::vector<BackwardRun*>& backwards_of_this_thread() {
  return g_backwards;
}

}  // namespace encore::record
