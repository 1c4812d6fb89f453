// Counting kinds of steps, and the time spent on them.
#include "budget/thrift.h"

#include <algorithm>

namespace encore::budget {
namespace {

constexpr size_t kMostSights = 2048;  // of a generation
// Plans that are made whatever they cost: of a kind, and in all.
constexpr int64_t kPlansOfAKind = 16;
constexpr int64_t kPlansInAll = 32;

}  // namespace

Sight Thrift::see(uint64_t signature) {
  ++steps_;
  streak_ = signature == last_ ? streak_ + 1 : 1;
  last_ = signature;
  Seen seen;
  if (const auto found = recent_.find(signature); found != recent_.end()) {
    seen = found->second;
  } else if (const auto old = older_.find(signature); old != older_.end()) {
    seen = old->second;
  } else {
    seen.sight.number = kinds_++;
  }
  again_ += seen.sight.count > 0 ? 1 : 0;
  seen.sight.distance = seen.sight.count > 0 ? steps_ - seen.last : 0;
  seen.sight.streak = streak_;
  ++seen.sight.count;
  seen.last = steps_;
  if (recent_.size() >= kMostSights) {
    older_ = std::move(recent_);
    recent_.clear();
  }
  recent_[signature] = seen;
  return seen.sight;
}

void Thrift::learnt(double seconds, size_t events) {
  spent_seconds_ += seconds;
  learning_each_seconds_ = std::max(learning_each_seconds_ / 2, seconds / static_cast<double>(events + 1));
}

void Thrift::planned(double seconds, size_t events) {
  ++plans_;
  spent_seconds_ += seconds;
  planning_each_seconds_ = std::max(planning_each_seconds_ / 2, seconds / static_cast<double>(events + 1));
}

void Thrift::sketched(double seconds, size_t events) {
  spent_seconds_ += seconds;
  sketching_each_seconds_ = std::max(sketching_each_seconds_ / 2, seconds / static_cast<double>(events + 1));
}

bool Thrift::may_learn(const Sight& sight, size_t events) const {
  if (is_entitled(sight)) {
    return true;
  }
  // A training whose steps come back, and a step that is new to it: it will come back, too.
  const bool will_be_seen_again = sight.count > 1 || again_ >= 2 * kinds_;
  return will_be_seen_again &&
         can_afford((learning_each_seconds_ +
                     (sketching_each_seconds_ > 0 ? sketching_each_seconds_ : planning_each_seconds_)) *
                    static_cast<double>(events));
}

bool Thrift::may_sketch(const Sight& sight, size_t events) const {
  return is_entitled(sight) || can_afford(sketching_each_seconds_ * static_cast<double>(events));
}

bool Thrift::may_plan(const Sight& sight, int64_t plans, size_t events) const {
  if (is_entitled(sight) && plans < kPlansOfAKind && plans_ < kPlansInAll) {
    return true;
  }
  return can_afford(planning_each_seconds_ * static_cast<double>(events));
}

}  // namespace encore::budget
