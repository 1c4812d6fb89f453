// A stack of free blocks for each size, by thread.
#include "run/small_blocks.h"

#include <array>

#include <c10/core/impl/alloc_cpu.h>

namespace encore::run::small_blocks {
namespace {

constexpr std::size_t kStepBytes = 64;  // the alignment of tensors
constexpr std::size_t kSizes = kLargestBytes / kStepBytes;
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kMostHeldBytes = 0;  // a tensor that is read after it was freed must show
#else
constexpr std::size_t kMostHeldBytes = std::size_t{64} << 10;  // by a thread
#endif

/// A free block holds the address of the next.
struct Free {
  Free* next;
};

class Held {
 public:
  ~Held() {
    give_back();
    room_ = 0;  // what is freed later on this thread goes back at once
  }

  void* take(std::size_t size) {
    Free* block = free_[size];
    if (block != nullptr) {
      free_[size] = block->next;
      room_ += (size + 1) * kStepBytes;
    }
    return block;
  }

  bool put(void* start, std::size_t size) {
    const std::size_t nbytes = (size + 1) * kStepBytes;
    if (nbytes > room_) {
      return false;
    }
    room_ -= nbytes;
    auto* block = static_cast<Free*>(start);
    block->next = free_[size];
    free_[size] = block;
    return true;
  }

  void give_back() {
    for (std::size_t size = 0; size < kSizes; ++size) {
      while (void* block = take(size)) {
        c10::free_cpu(block);
      }
    }
  }

 private:
  std::array<Free*, kSizes> free_{};
  std::size_t room_ = kMostHeldBytes;
};

thread_local Held g_held;

std::size_t size_of(std::size_t nbytes) {
  return (nbytes - 1) / kStepBytes;
}

}  // namespace

char* take(std::size_t nbytes) {
  const std::size_t size = size_of(nbytes);
  void* block = g_held.take(size);
  return static_cast<char*>(block != nullptr ? block : c10::alloc_cpu((size + 1) * kStepBytes));
}

void put(char* start, std::size_t nbytes) noexcept {
  if (!g_held.put(start, size_of(nbytes))) {
    c10::free_cpu(start);
  }
}

void give_back() noexcept {
  g_held.give_back();
}

}  // namespace encore::run::small_blocks
