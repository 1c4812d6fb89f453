// Prices of values, from the ops that would have to run again.
#include "budget/prices.h"

namespace encore::budget {
namespace {

using tape::kNone;
using tape::OpId;
using tape::ValueId;

// What a checkpoint of the user's made costs this part of its price.
constexpr double kHinted = 0.1;
// Bringing a value back costs this much, however fast its op is.
constexpr double kReplayNs = 1000;
// Unpacking a mask, for each of its bytes.
constexpr double kUnpackNs = 0.1;

}  // namespace

/// The time it would take to bring the value back, with all that must come back for it.
double Prices::replay_ns_of(tape::Tape& tape, ValueId id) {
  constexpr size_t kMost = 256;  // by then it is dear enough
  if (tape.value(id).is_resting()) {
    return kReplayNs + kUnpackNs * static_cast<double>(tape.value(id).nbytes);
  }
  double total = kReplayNs;
  seen_.resize(tape.ops().size());
  ++search_;
  open_.assign(1, id);
  for (size_t ops = 0; !open_.empty() && ops < kMost;) {
    const tape::Value& value = tape.value(open_.back());
    open_.pop_back();
    if (std::exchange(seen_[static_cast<size_t>(value.producer)], search_) == search_) {
      continue;
    }
    ++ops;
    ++work_;
    const tape::Op& op = tape.ops()[static_cast<size_t>(value.producer)];
    total += static_cast<double>(op.duration_ns);
    const auto need = [&](ValueId other) {
      if (other != kNone && !tape.value(other).is_resting() && !is_there(tape, other)) {
        open_.push_back(other);
      }
    };
    need(value.base);
    for (const tape::TensorArg& arg : op.tensors) {
      if (arg.read) {
        need(arg.value);
      }
    }
  }
  return total;
}

bool is_there(tape::Tape& tape, ValueId id) {
  return tape.value(id).is_constant() || tape.resident(id);
}

void Prices::hint(OpId first, OpId last) {
  hinted_.resize(static_cast<size_t>(last), 0);
  std::fill(hinted_.begin() + first, hinted_.end(), 1);
}

double Prices::of(tape::Tape& tape, ValueId id) {
  const tape::Value& value = tape.value(id);
  const double distance = std::abs(static_cast<double>(position_) - static_cast<double>(value.producer)) + 1;
  const auto producer = static_cast<size_t>(value.producer);
  const bool hinted = producer < hinted_.size() && hinted_[producer] != 0;
  return replay_ns_of(tape, id) * (hinted ? kHinted : 1) / (static_cast<double>(value.nbytes) * distance);
}

}  // namespace encore::budget
