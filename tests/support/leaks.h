// What LibTorch itself leaks, out of the leak sanitizer's sight.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define ENCORE_LEAKS_ARE_CHECKED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ENCORE_LEAKS_ARE_CHECKED 1
#endif
#endif
#ifdef ENCORE_LEAKS_ARE_CHECKED
#include <sanitizer/lsan_interface.h>
#endif

namespace encore::test {

/// What this thread allocates while it lives is never called leaked. For plain runs, and for runs with Encore of graphs
/// that were seen to leak plainly: a suppression by LibTorch's functions would hide every tape that hangs on a graph.
class IgnoreLeaks {
 public:
#ifdef ENCORE_LEAKS_ARE_CHECKED
  IgnoreLeaks() {
    __lsan_disable();
  }
  ~IgnoreLeaks() {
    __lsan_enable();
  }
#else
  IgnoreLeaks() {}
  ~IgnoreLeaks() {}
#endif
  IgnoreLeaks(const IgnoreLeaks&) = delete;
  IgnoreLeaks& operator=(const IgnoreLeaks&) = delete;
};

}  // namespace encore::test
