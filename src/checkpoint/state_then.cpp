// Putting the state of a function's first call back, and what is there now afterwards.
#include "checkpoint/state_then.h"

#include <cstring>

#include "tape/compat.h"

namespace encore {

StoragesThen::StoragesThen(tape::Tape& tape, tape::OpId first, tape::OpId last) : tape_(tape) {
  const std::lock_guard<std::recursive_mutex> lock(tape_.mutex());
  try {
    for (tape::OpId id = first; id < last; ++id) {
      const tape::Op& op = tape.ops()[static_cast<size_t>(id)];
      for (const tape::TensorArg& arg : op.tensors) {
        if (arg.read && tape.value(arg.value).source) {
          use(arg.value, first);
        }
      }
      for (const tape::Write& write : op.writes) {
        use(write.before, first);
      }
    }
  } catch (...) {
    swap_back();
    throw;
  }
}

c10::Storage StoragesThen::find(const c10::StorageImpl* storage) const {
  for (const Swap& swap : swaps_) {
    if (swap.storage == storage) {
      return swap.live;
    }
  }
  return c10::Storage();
}

void StoragesThen::use(tape::ValueId id, tape::OpId first) {
  const tape::Value& value = tape_.value(id);
  if (value.producer >= first || !seen_.insert(value.storage).second) {
    return;
  }
  if (value.source) {
    tape_.resident(id);  // throws if it changed
  }
  if (!value.copied) {
    return;
  }
  const c10::Storage& then = value.strong;
  tape::StorageRecord& record = tape_.storage(value.storage);
  const c10::StorageImpl* storage = record.weak._unsafe_get_target();
  const auto locked = record.weak.lock();
  if (!locked || locked->nbytes() != then.nbytes()) {
    // Nobody else has it any more: the call gets bytes of its own.
    swaps_.push_back({value.storage, storage, tape::copy_storage(then), c10::Storage(), false});
    return;
  }
  const c10::Storage live(locked);
  swaps_.push_back({value.storage, storage, live, tape::copy_storage(live), record.changed_unseen()});
  std::memcpy(compat::data_of(live), compat::data_of(then), then.nbytes());
}

void StoragesThen::swap_back() {
  const std::lock_guard<std::recursive_mutex> lock(tape_.mutex());
  for (const Swap& swap : swaps_) {
    if (!swap.now) {
      continue;
    }
    std::memcpy(compat::data_of(swap.live), compat::data_of(swap.now), swap.now.nbytes());
    tape::StorageRecord& record = tape_.storage(swap.index);
    if (record.counter.enabled() && !swap.changed) {
      record.version = static_cast<int64_t>(record.counter.current_version());
    }
  }
  swaps_.clear();
}

GradientsThen::GradientsThen(const Gradients& gradients) : gradients_(gradients) {
  for (const auto& [leaf, then] : gradients_) {
    now_.push_back(leaf.grad());
    leaf.mutable_grad() = then.defined() ? then.clone() : at::Tensor();
  }
}

GradientsThen::~GradientsThen() {
  for (size_t i = 0; i < now_.size(); ++i) {
    gradients_[i].first.mutable_grad() = now_[i];
  }
}

RandomThen::RandomThen(tape::Tape& tape, tape::OpId first, tape::OpId last, const tape::RandomState& start) {
  const std::lock_guard<std::recursive_mutex> lock(tape.mutex());
  lock_ = tape::lock_random_ops();
  use(start);
  for (tape::OpId id = first; id < last; ++id) {
    const auto& random = tape.ops()[static_cast<size_t>(id)].random;
    if (random && std::none_of(now_.begin(), now_.end(),
                               [&](const auto& state) { return state.generator() == random->generator(); })) {
      use(*random);
    }
  }
}

RandomThen::~RandomThen() {
  for (const tape::RandomState& state : now_) {
    state.restore();
  }
}

void RandomThen::use(const tape::RandomState& then) {
  now_.emplace_back(then.generator());
  then.restore();
}

}  // namespace encore
