// Memory for what is recorded: handed out in order, given back all at once.
#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <c10/util/ArrayRef.h>

namespace encore::tape {

/// Addresses stay good as long as the arena lives. It runs no destructors: who puts in what needs one calls it.
class Arena {
 public:
  /// Moves the items to a place of their own.
  template <class Items>
  auto keep(Items& items) {
    using T = typename Items::value_type;
    if (items.empty()) {
      return c10::ArrayRef<T>();
    }
    auto* place = static_cast<T*>(allocate(items.size() * sizeof(T)));
    for (size_t i = 0; i < items.size(); ++i) {
      new (place + i) T(std::move(items[i]));
    }
    return c10::ArrayRef<T>(place, items.size());
  }

  /// All that was taken from the system.
  size_t nbytes() const { return nbytes_; }

 private:
  static constexpr size_t kAlignment = alignof(std::max_align_t);
  static constexpr size_t kFirstChunkBytes = 1024;  // a checkpoint of a few ops needs no more
  static constexpr size_t kLargestChunkBytes = size_t{1} << 16;

  void* allocate(size_t nbytes) {
    nbytes = (nbytes + kAlignment - 1) / kAlignment * kAlignment;
    if (nbytes > left_) {
      const size_t chunk_bytes = std::max(nbytes, std::clamp(nbytes_, kFirstChunkBytes, kLargestChunkBytes));
      chunks_.emplace_back(new char[chunk_bytes]);
      nbytes_ += chunk_bytes;
      next_ = chunks_.back().get();
      left_ = chunk_bytes;
    }
    left_ -= nbytes;
    return std::exchange(next_, next_ + nbytes);
  }

  std::vector<std::unique_ptr<char[]>> chunks_;
  char* next_ = nullptr;
  size_t left_ = 0;
  size_t nbytes_ = 0;
};

}  // namespace encore::tape
