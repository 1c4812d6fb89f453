// A line where there is one, halves where there is none.
#include "budget/batch_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace encore::budget {

namespace {

// Nobody has so many rows, and four times as many can still be counted.
constexpr int64_t kMostRows = std::numeric_limits<int64_t>::max() / 8;

}  // namespace

BatchSearch::BatchSearch(int64_t low, int64_t high, int64_t limit_bytes, int64_t least_bytes)
    : limit_bytes_(limit_bytes), largest_{low, least_bytes}, too_large_(std::min(high, kMostRows) + 1) {}

std::optional<int64_t> BatchSearch::next() const {
  constexpr int64_t kTriesByLine = 8;
  constexpr int64_t kSmallStep = 16;  // the first step down, as a part of what is left
  const int64_t least = largest_.batch + 1;
  const int64_t most = too_large_ - 1;
  if (least > most) {
    return std::nullopt;
  }
  if (tries_ >= kTriesByLine) {
    return least + (most - least) / 2;
  }
  if (misses_ > 0 && other_) {
    const int64_t step = std::max<int64_t>(1, (most - least) / kSmallStep) << std::min<int64_t>(misses_ - 1, 16);
    const int64_t lower = std::max(least, too_large_ - step);
    return std::clamp(std::min(where_the_line_ends().value_or(lower), lower), least, most);
  }
  if (misses_ > 0) {
    return least + (most - least) / 2;
  }
  // Small batches may all need the same: what an optimizer does is then more than what they do.
  const int64_t growth = other_ ? 4 : 2;
  return std::clamp(where_the_line_ends().value_or(growth * largest_.batch), least, most);
}

std::optional<int64_t> BatchSearch::where_the_line_ends() const {
  if (!other_ || largest_.least_bytes < 0 || other_->least_bytes < 0) {
    return std::nullopt;
  }
  const double slope = static_cast<double>(largest_.least_bytes - other_->least_bytes) /
                       static_cast<double>(largest_.batch - other_->batch);
  const double room = static_cast<double>(limit_bytes_ - largest_.least_bytes);
  if (slope <= 0 || room > slope * static_cast<double>(too_large_)) {
    return slope <= 0 ? std::nullopt : std::optional<int64_t>(too_large_ - 1);
  }
  return largest_.batch + static_cast<int64_t>(std::floor(room / slope));
}

void BatchSearch::tried(int64_t batch, bool fits, int64_t least_bytes) {
  ++tries_;
  if (fits) {
    other_ = largest_;
    largest_ = {batch, least_bytes};
    misses_ = 0;
    return;
  }
  too_large_ = batch;
  if (least_bytes >= 0) {
    other_ = Point{batch, least_bytes};
    misses_ = 0;
  } else {
    ++misses_;
  }
}

}  // namespace encore::budget
