// Prices of values, from the ops that would have to run again.
#include "budget/prices.h"

#include <unordered_set>

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

/// The time it would take to bring the value back, with all that must come back for it.
double replay_ns_of(tape::Tape& tape, ValueId id) {
  constexpr size_t kMost = 256;  // by then it is dear enough
  if (!tape.value(id).packed.expired()) {
    return kReplayNs + kUnpackNs * static_cast<double>(tape.value(id).nbytes);
  }
  double total = kReplayNs;
  std::vector<ValueId> open = {id};
  std::unordered_set<OpId> seen;
  while (!open.empty() && seen.size() < kMost) {
    const tape::Value& value = tape.value(open.back());
    open.pop_back();
    if (!seen.insert(value.producer).second) {
      continue;
    }
    const tape::Op& op = tape.ops()[static_cast<size_t>(value.producer)];
    total += static_cast<double>(op.duration_ns);
    const auto need = [&](ValueId other) {
      if (other != kNone && tape.value(other).packed.expired() && !is_there(tape, other)) {
        open.push_back(other);
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

}  // namespace

bool is_there(tape::Tape& tape, ValueId id) {
  return tape.value(id).is_constant() || tape.resident(id);
}

void Prices::hint(OpId first, OpId last) {
  hinted_.resize(static_cast<size_t>(last), 0);
  std::fill(hinted_.begin() + first, hinted_.end(), 1);
}

double Prices::of(tape::Tape& tape, ValueId id) const {
  const tape::Value& value = tape.value(id);
  const double distance = std::abs(static_cast<double>(position_) - static_cast<double>(value.producer)) + 1;
  const auto producer = static_cast<size_t>(value.producer);
  const bool hinted = producer < hinted_.size() && hinted_[producer] != 0;
  return replay_ns_of(tape, id) * (hinted ? kHinted : 1) / (static_cast<double>(value.nbytes) * distance);
}

}  // namespace encore::budget
