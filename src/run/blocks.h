// Freed blocks, held for the next allocation of their size: fresh pages are dear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace encore::run {

/// Raw memory for the allocator. While nobody wants reuse it is LibTorch's own allocation and nothing else.
///
/// Held blocks count against a ceiling: together with the live bytes they never exceed the meter's limit or, where
/// there is none, the most that was live at once since reuse began. So reuse never makes a process larger than its own
/// peak.
class Blocks {
 public:
  static Blocks& instance();

  char* take(size_t nbytes);
  void put(char* block, size_t nbytes) noexcept;

  /// Freed blocks are held as long as anybody wants that; with the last one gone they go back to the system.
  void begin_reuse();
  void end_reuse();

  /// Gives held blocks back to the system until they and the live bytes are within the ceiling.
  void trim();
  int64_t held_bytes() const;

 private:
  struct Held {
    char* block;
    int64_t age;
  };
  void trim_to(int64_t bytes);
  int64_t room() const;

  mutable std::mutex mutex_;
  int users_ = 0;
  int64_t peak_ = 0;  // live bytes since reuse began
  int64_t held_bytes_ = 0;
  int64_t clock_ = 0;
  std::multimap<size_t, Held> held_;
};

}  // namespace encore::run
