// Memory of objects that come and go one by one on a thread, kept for the next of them.
#pragma once

#include <cstddef>
#include <new>

namespace encore {

/// To be inherited by a class of which LibTorch wants each object on the heap: `class Mark : Spared<Mark>`. Objects
/// that are done with leave their memory to the next on their thread.
template <class T>
class Spared {
 public:
  static void* operator new(std::size_t size) {
    return g_spare.count == 0 ? ::operator new(size) : g_spare.memory[--g_spare.count];
  }
  static void operator delete(void* memory) noexcept {
    if (g_spare.count == kMost) {
      ::operator delete(memory);
    } else {
      g_spare.memory[g_spare.count++] = memory;
    }
  }

 private:
  static constexpr std::size_t kMost = 16;  // calls nest no deeper as a rule
  struct Spare {
    std::size_t count = 0;
    void* memory[kMost];

    ~Spare() {
      while (count > 0) {
        ::operator delete(memory[--count]);
      }
      count = kMost;  // what is given up later on this thread goes back at once
    }
  };
  static thread_local Spare g_spare;
};

template <class T>
thread_local typename Spared<T>::Spare Spared<T>::g_spare;

}  // namespace encore
