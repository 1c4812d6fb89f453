// Memory for tensors: large blocks in mappings of our own, so that what is freed really goes, or is given out again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>

#include <encore/export.h>

namespace encore::run {

/// Memory that was taken, and must be given back as it is.
struct Block {
  char* start = nullptr;
  size_t nbytes = 0;
  bool mapped = false;  // from a mapping of ours, in whole pages; else from malloc
};

/// While nobody wants reuse it is LibTorch's own allocation, but for small blocks, which a thread holds a few of
/// (small_blocks.h).
///
/// While somebody does, large blocks are cut from mappings. What is freed is held for the next allocation, since fresh
/// pages cost more than many an op, and neighbours are joined, so that a block may be cut from what was several before.
/// Held and live bytes together never exceed the meter's limit or, where there is none, the most that was live at once
/// since reuse began: what is above goes back to the system at once, page by page, longest held first. So the process
/// is no larger than its tensors may be. glibc's own heap would keep what was freed: its threshold for mapping grows to
/// 32 MB with what is freed.
class Blocks {
 public:
  static Blocks& instance();

  Block take(size_t nbytes);
  void put(const Block& block) noexcept;

  /// Freed blocks are held as long as anybody wants that; with the last one gone they go back to the system.
  void begin_reuse();
  void end_reuse();

  /// Gives held blocks back to the system until they and the live bytes are within the ceiling.
  void trim();
  /// Gives back what malloc holds of freed blocks, if that is a good part of the ceiling.
  static void trim_heap(int64_t ceiling);
  /// Gives back everything that is held, and what malloc holds of freed small blocks.
  void give_back();
  int64_t held_bytes() const;

  /// Around a fork.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  /// Free pages next to each other.
  struct Extent {
    size_t nbytes = 0;
    int64_t age = 0;
  };
  using Extents = std::map<char*, Extent>;

  Block cut(Extents::iterator extent, size_t nbytes);
  void add(char* start, Extent extent);
  void erase(Extents::iterator extent);
  void trim_to(int64_t bytes);
  void count_mapped(size_t mapped);
  int64_t ceiling() const;
  int64_t room() const;

  mutable std::mutex mutex_;   // taken before the meter's
  std::atomic<int> users_{0};  // changes under the lock
  int64_t peak_ = 0;           // live bytes since reuse began
  int64_t held_bytes_ = 0;
  int64_t mapped_bytes_ = 0;  // since malloc was last asked
  int64_t clock_ = 0;
  Extents by_place_;
  std::set<std::pair<size_t, char*>> by_size_;
  std::set<std::pair<int64_t, char*>> by_age_;
};

}  // namespace encore::run
