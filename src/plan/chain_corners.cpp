// Curves have hundreds of corners and there are tens of thousands of them: what counts is how many cache lines are
// read.
#include "plan/chain_corners.h"

#include <algorithm>
#include <cmath>

namespace encore::plan {
namespace {

// So many corners are looked at one by one before the next try to leave out more at once.
constexpr ptrdiff_t kShort = 6;

// The last corner within `bytes` of those from `from`, which is within, to `to`.
const Corner* last_within(const Corner* from, const Corner* to, int64_t bytes) {
  for (ptrdiff_t count = to - from; count > 0;) {
    const ptrdiff_t half = (count + 1) / 2;
    from += half * static_cast<ptrdiff_t>(from[half].bytes <= bytes);
    count -= half;
  }
  return from;
}

// Where a division stands against the best.
class Walk {
 public:
  Walk(const Division& division, const Corners& best)
      : it_(division),
        a_(division.left.data()),
        b_(division.right.data()),
        last_a_(a_ + division.left.size() - 2),
        last_b_(b_ + division.right.size() - 2),
        bytes_(std::max({division.least, a_->bytes, b_->bytes + division.shift})),
        c_(best.data()),
        last_c_(c_ + best.size() - 1) {
    follow();
    stop_ = std::partition_point(c_, last_c_, [&](const Corner& corner) {
              return corner.time * kFaster > it_.floor;
            })->bytes;
  }

  // Most divisions lose nearly everywhere: as times only fall, a stretch is lost as a whole if its end isn't below the
  // start of the best's. The corners of both parts need not be found exactly for that, only none that is too late.
  void run(Corners* out) {
    ptrdiff_t stride = 16;
    while (it_.floor < bar_) {
      const ChainPoint* far_a = a_ + std::min(stride, last_a_ - a_);
      const ChainPoint* far_b = b_ + std::min(stride, last_b_ - b_);
      if (it_.time + far_a->time + far_b->time >= bar_) {
        if (!leave_out(far_a, far_b)) {
          return;
        }
        stride *= 2;
      } else if (stride > kShort) {
        stride /= 2;
      } else {
        if (!one_by_one(out)) {
          return;
        }
        stride = 2 * kShort;
      }
    }
  }

 private:
  // Finds the best's corner for `bytes_`.
  void follow() {
    if (c_->bytes > bytes_) {
      return;
    }
    ptrdiff_t step = 1;
    while (step < last_c_ - c_ && c_[step].bytes <= bytes_) {
      c_ += step;
      step *= 2;
    }
    c_ = last_within(c_, c_ + std::min(step, last_c_ - c_), bytes_) + 1;
    bar_ = c_[-1].time * kFaster;
  }

  // Lost up to the nearer of both. False at the end.
  bool leave_out(const ChainPoint* far_a, const ChainPoint* far_b) {
    const int64_t end_a = far_a == last_a_ ? kNever : far_a->bytes;
    const int64_t end_b = far_b == last_b_ ? kNever : far_b->bytes + it_.shift;
    const int64_t end = std::min(end_a, end_b);
    a_ = end_a == end ? far_a : a_;
    b_ = end_b == end ? far_b : b_;
    if (end > bytes_) {
      bytes_ = end;
      follow();
    }
    return end < stop_ && end < kNever;
  }

  bool one_by_one(Corners* out) {
    while (a_[1].bytes <= bytes_) {
      ++a_;
    }
    while (b_[1].bytes + it_.shift <= bytes_) {
      ++b_;
    }
    for (ptrdiff_t k = 0; k < kShort; ++k) {
      const double value = it_.time + a_->time + b_->time;
      if (value < bar_) {
        out->push_back({{bytes_, value}, it_.split});
      }
      const int64_t next_a = a_[1].bytes;
      const int64_t next_b = b_[1].bytes + it_.shift;
      bytes_ = std::min(next_a, next_b);
      if (bytes_ >= stop_ || bytes_ >= kNever) {
        return false;
      }
      a_ += next_a == bytes_ ? 1 : 0;
      b_ += next_b == bytes_ ? 1 : 0;
      if (c_->bytes <= bytes_) {
        do {
          ++c_;
        } while (c_->bytes <= bytes_);
        bar_ = c_[-1].time * kFaster;
      }
    }
    return true;
  }

  const Division& it_;
  // At the last corner within `bytes_`, or before it.
  const ChainPoint* a_;
  const ChainPoint* b_;
  const ChainPoint* last_a_;
  const ChainPoint* last_b_;
  int64_t bytes_;
  const Corner* c_;  // The best's first corner above `bytes_`,
  const Corner* last_c_;
  double bar_ = INFINITY;  // and what is below it there.
  int64_t stop_ = kNever;  // From here on nothing is.
};

}  // namespace

double time_within(const Curve& curve, int64_t bytes) {
  const auto it = std::upper_bound(curve.begin(), curve.end(), bytes,
                                   [](int64_t limit, const ChainPoint& point) { return limit < point.bytes; });
  return it == curve.begin() ? INFINITY : std::prev(it)->time;
}

void corners_below(const Division& division, const Corners& best, Corners* out) {
  out->clear();
  Walk(division, best).run(out);
}

void merge_into(const Corners& below, Corners* best, Corners* scratch) {
  scratch->clear();
  const auto first = std::lower_bound(best->begin(), best->end(), below.front().bytes,
                                      [](const Corner& corner, int64_t bytes) { return corner.bytes < bytes; });
  auto it = first;
  double time = INFINITY;
  const auto take = [&](const Corner& corner) {
    if (faster(corner.time, time)) {
      scratch->push_back(corner);
      time = corner.time;
    }
  };
  for (const Corner& corner : below) {
    for (; it->bytes < corner.bytes; ++it) {
      take(*it);
    }
    take(corner);
  }
  while (it->bytes < kNever && !faster(it->time, time)) {
    ++it;
  }
  // Only what they touch is written again.
  const auto old_size = it - first;
  const auto new_size = static_cast<ptrdiff_t>(scratch->size());
  if (new_size <= old_size) {
    std::copy(scratch->begin(), scratch->end(), first);
    best->erase(first + new_size, it);
  } else {
    std::copy(scratch->begin(), scratch->begin() + old_size, first);
    best->insert(it, scratch->begin() + old_size, scratch->end());
  }
}

}  // namespace encore::plan
