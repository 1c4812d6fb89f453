// Which batch size to try next.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace encore::budget {

/// The largest batch that fits, where a larger one needs more. The bytes that it needs are nearly a line in the batch
/// size, so the next try is where the line through what is known reaches the limit. A try that was refused has no
/// figure, and one that is not near a line has a bad one: then the tries go down in growing steps, and at last by
/// halves.
class BatchSearch {
 public:
  /// `low` fits and needs at least so many bytes; -1: not known.
  BatchSearch(int64_t low, int64_t high, int64_t limit_bytes, int64_t least_bytes);

  /// Nothing once the answer is known.
  std::optional<int64_t> next() const;
  void tried(int64_t batch, bool fits, int64_t least_bytes);
  int64_t largest() const { return largest_.batch; }

 private:
  struct Point {
    int64_t batch;
    int64_t least_bytes;
  };

  std::optional<int64_t> where_the_line_ends() const;

  int64_t limit_bytes_;
  Point largest_;               // that fits
  std::optional<Point> other_;  // the other point of the line
  int64_t too_large_;           // the smallest that does not fit
  int64_t misses_ = 0;          // in a row, without figures
  int64_t tries_ = 0;
};

}  // namespace encore::budget
