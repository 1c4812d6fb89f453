// Prices of values, from the ops that would have to run again.
#include "budget/prices.h"

namespace encore::budget {
namespace {

using tape::OpId;
using tape::ValueId;

// What a checkpoint of the user's made costs this part of its price.
constexpr double kHinted = 0.1;
// Bringing a value back costs this much, however fast its op is.
constexpr double kReplayNs = 1000;
// Bringing a value out of a smaller form, for each of its bytes: whatever the form, writing them takes most of it.
constexpr double kUnpackNsPerByte = 0.1;

}  // namespace

/// The time it would take to bring the value back, with all that must come back for it.
double Prices::replay_ns_of(const store::Residency& residency, ValueId id) {
  const tape::Tape& tape = residency.tape();
  constexpr size_t kMost = 256;  // by then it is dear enough
  if (residency.is_resting(id)) {
    return kReplayNs + kUnpackNsPerByte * static_cast<double>(tape.value(id).nbytes);
  }
  double total = kReplayNs;
  seen_.resize(tape.ops().size());
  ++search_;
  open_.assign(1, id);
  for (size_t ops = 0; !open_.empty() && ops < kMost;) {
    const ValueId next = open_.back();
    const OpId producer = tape.value(next).producer;
    open_.pop_back();
    if (std::exchange(seen_[static_cast<size_t>(producer)], search_) == search_) {
      continue;
    }
    ++ops;
    ++work_;
    total += static_cast<double>(tape.op(producer).duration_ns);
    tape.for_each_read(next, [&](ValueId other) {
      if (!residency.is_resting(other) && !is_there(residency, other)) {
        open_.push_back(other);
      }
    });
  }
  return total;
}

bool is_there(const store::Residency& residency, ValueId id) {
  return residency.is_constant(id) || residency.resident(id);
}

void Prices::hint(OpId first, OpId last) {
  hinted_.resize(static_cast<size_t>(last), 0);
  std::fill(hinted_.begin() + first, hinted_.end(), 1);
}

double Prices::price(const tape::Value& value, double replay_ns) const {
  const double distance = std::abs(static_cast<double>(position_) - static_cast<double>(value.producer)) + 1;
  const auto producer = static_cast<size_t>(value.producer);
  const bool hinted = producer < hinted_.size() && hinted_[producer] != 0;
  return replay_ns * (hinted ? kHinted : 1) / (static_cast<double>(value.nbytes) * distance);
}

double Prices::of(const store::Residency& residency, ValueId id) {
  const auto index = static_cast<size_t>(id);
  if (index < replay_ns_.size() && replay_ns_[index] > 0) {
    return price(residency.tape().value(id), replay_ns_[index]);
  }
  return anew(residency, id);
}

double Prices::anew(const store::Residency& residency, ValueId id) {
  const tape::Tape& tape = residency.tape();
  if (replay_ns_.size() < tape.num_values()) {
    replay_ns_.resize(tape.num_values() * 2, 0);
  }
  const auto replay_ns = static_cast<float>(replay_ns_of(residency, id));
  replay_ns_[static_cast<size_t>(id)] = replay_ns;
  return price(tape.value(id), replay_ns);
}

void Prices::came_back(int64_t ops, size_t all_ops) {
  constexpr size_t kPart = 8;
  came_back_ += ops;
  if (static_cast<size_t>(came_back_) > all_ops / kPart) {
    came_back_ = 0;
    std::fill(replay_ns_.begin(), replay_ns_.end(), 0.0F);
  }
}

}  // namespace encore::budget
