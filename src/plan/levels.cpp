// Ranges of numbers, raised block by block.
#include "plan/levels.h"

#include <algorithm>
#include <cmath>

namespace encore::plan {

Levels::Levels(const std::vector<double>& values, double limit)
    : values_(values), blocks_(values.size() / kBlock + 1), limit_(limit) {
  set_limit(limit);
}

void Levels::set_limit(double limit) {
  limit_ = limit;
  excess_ = 0;
  over_ = 0;
  for (size_t i = 0; i < values_.size(); ++i) {
    count(at(static_cast<int32_t>(i)), 1);
  }
}

void Levels::count(double value, int32_t sign) {
  if (value > limit_) {
    excess_ += sign * (value - limit_);
    over_ += sign;
  }
}

void Levels::set(int32_t i, double value) {
  count(at(i), -1);
  count(value, 1);
  Block& block = blocks_[block_of(i)];
  const double inner = value - block.raised;
  if (!block.stale) {
    const double old = values_[i];
    if (inner > block.high || inner < block.low) {
      block.high = std::max(block.high, inner);
      block.low = std::min(block.low, inner);
    }
    block.stale = (old == block.high && inner < old) || (old == block.low && inner > old);
  }
  values_[i] = inner;
}

const Levels::Block& Levels::fresh(size_t index) const {
  Block& block = blocks_[index];
  if (block.stale) {
    const auto first = values_.begin() + static_cast<int64_t>(index) * kBlock;
    const auto last = std::min(values_.end(), first + kBlock);
    const auto [low, high] = std::minmax_element(first, last);
    block.low = *low;
    block.high = *high;
    block.stale = false;
  }
  return block;
}

int64_t Levels::raise(int32_t first, int32_t last, double by) {
  int64_t work = 4;
  while (first < last) {
    const int32_t end = std::min(last, (first / kBlock + 1) * kBlock);
    Block& block = blocks_[block_of(first)];
    const bool whole = end - first == kBlock;
    if (limit_ < INFINITY) {
      work += whole ? count_block(block_of(first), by) : count_range(first, end, by);
    }
    if (whole) {
      block.raised += by;
    } else {
      block.stale = true;
      for (int32_t i = first; i < end; ++i) {
        values_[i] += by;
      }
    }
    work += 2;
    first = end;
  }
  return work;
}

/// What the excess changes by when a block is raised: nothing to look at where all of it is on one side of the limit.
int64_t Levels::count_block(size_t index, double by) {
  const Block& block = fresh(index);
  const double low = block.low + block.raised;
  const double high = block.high + block.raised;
  if (low > limit_ && low + by > limit_) {
    excess_ += kBlock * by;
    return 1;
  }
  if (high <= limit_ && high + by <= limit_) {
    return 1;
  }
  const auto first = static_cast<int32_t>(index) * kBlock;
  return count_range(first, first + kBlock, by);
}

int64_t Levels::count_range(int32_t first, int32_t last, double by) {
  const double limit = limit_ - blocks_[block_of(first)].raised;
  double change = 0;
  int32_t over = 0;
  for (int32_t i = first; i < last; ++i) {
    const double old = values_[i] - limit;
    const double now = old + by;
    change += std::max(now, 0.0) - std::max(old, 0.0);
    over += static_cast<int32_t>(now > 0) - static_cast<int32_t>(old > 0);
  }
  excess_ += change;
  over_ += over;
  return last - first;
}

int32_t Levels::largest(int32_t first, int32_t last) const {
  int32_t best = first;
  double most = at(first);
  while (first < last) {
    const int32_t end = std::min(last, (first / kBlock + 1) * kBlock);
    const Block& block = fresh(block_of(first));
    if (block.high + block.raised > most) {
      for (int32_t i = first; i < end; ++i) {
        if (values_[i] + block.raised > most) {
          most = values_[i] + block.raised;
          best = i;
        }
      }
    }
    first = end;
  }
  return best;
}

}  // namespace encore::plan
