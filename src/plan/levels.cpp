// Ranges of numbers, raised block by block.
#include "plan/levels.h"

#include <algorithm>

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
    const size_t index = block_of(first);
    if (end - first < kBlock) {
      raise_one_by_one(first, end, by);
      work += end - first;
      first = end;
      continue;
    }
    const Block& block = fresh(index);
    const double low = block.low + block.raised;
    const double high = block.high + block.raised;
    if (low > limit_ && low + by > limit_) {
      excess_ += kBlock * by;
    } else if (high > limit_ || high + by > limit_) {
      for (int32_t i = first; i < end; ++i) {
        const double old = at(i);
        count(old, -1);
        count(old + by, 1);
      }
      work += kBlock;
    }
    blocks_[index].raised += by;
    work += 2;
    first = end;
  }
  return work;
}

void Levels::raise_one_by_one(int32_t first, int32_t last, double by) {
  if (first >= last) {
    return;
  }
  Block& block = blocks_[block_of(first)];
  block.stale = true;
  for (int32_t i = first; i < last; ++i) {
    const double old = block.raised + values_[i];
    count(old, -1);
    count(old + by, 1);
    values_[i] += by;
  }
}

int32_t Levels::largest(int32_t first, int32_t last) const {
  int32_t best = first;
  while (first < last) {
    const int32_t end = std::min(last, (first / kBlock + 1) * kBlock);
    const size_t index = block_of(first);
    const bool whole = end - first == kBlock;
    if (!whole || fresh(index).high + fresh(index).raised > at(best)) {
      for (int32_t i = first; i < end; ++i) {
        best = at(i) > at(best) ? i : best;
      }
    }
    first = end;
  }
  return best;
}

}  // namespace encore::plan
