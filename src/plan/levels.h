// Bytes by stage, of which whole ranges are raised and lowered at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace encore::plan {

/// Numbers with a limit, in blocks. A block that lies below the limit altogether, or above it, is raised in one go.
/// Exact as long as the numbers are whole and their sums below 2^53.
class Levels {
 public:
  explicit Levels(const std::vector<double>& values, double limit);

  [[nodiscard]] double at(int32_t i) const { return blocks_[block_of(i)].raised + values_[i]; }
  void set(int32_t i, double value);
  /// Adds to the numbers of [first, last). Returns how many elementary operations that took.
  int64_t raise(int32_t first, int32_t last, double by);
  void set_limit(double limit);

  [[nodiscard]] double limit() const { return limit_; }
  /// Sum of what the numbers have above the limit, and how many have.
  [[nodiscard]] double excess() const { return excess_; }
  [[nodiscard]] int32_t over() const { return over_; }
  /// The first of the largest numbers of [first, last), which is not empty.
  [[nodiscard]] int32_t largest(int32_t first, int32_t last) const;

 private:
  static constexpr int32_t kBlock = 64;

  struct Block {
    double raised = 0;  // to be added to all of its values
    double low = 0;     // of its values, before that
    double high = 0;
    bool stale = true;  // low and high are not known
  };

  static size_t block_of(int32_t i) { return static_cast<size_t>(i / kBlock); }
  const Block& fresh(size_t block) const;
  int64_t count_block(size_t block, double by);
  int64_t count_range(int32_t first, int32_t last, double by);
  void count(double value, int32_t sign);

  std::vector<double> values_;
  mutable std::vector<Block> blocks_;
  double limit_;
  double excess_ = 0;
  int32_t over_ = 0;
};

}  // namespace encore::plan
