// The CPU allocator that counts.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace encore::run {

/// Counts of one process. Every change and every reading happens under its lock, so peaks are exact.
class Meter {
 public:
  static Meter& instance();

  void add(int64_t bytes);
  void remove(int64_t bytes);
  int64_t live() const;
  int64_t peak() const;
  void reset_peak();

  /// `peak` follows the largest live count until it is unwatched.
  void watch(int64_t* peak);
  void unwatch(int64_t* peak);
  int64_t read(const int64_t* peak) const;

 private:
  mutable std::mutex mutex_;
  int64_t live_ = 0;
  int64_t peak_ = 0;
  std::vector<int64_t*> watchers_;
};

/// Takes the CPU allocator slot on first use. Throws SlotError if it is not LibTorch's own allocator that holds it.
void ensure_allocator();

}  // namespace encore::run
