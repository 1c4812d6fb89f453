// What may still be asked for, and letting go of the rest.
#include "tape/tape.h"

namespace encore::tape {

void Tape::hold(ValueId id, c10::Storage storage) {
  value(id).strong = std::move(storage);
  strong_.push_back(id);
}

void Tape::copy(ValueId id, const c10::Storage& storage) {
  hold(id, copy_storage(storage));
  value(id).copied = true;
}

/// The bytes of a constant are about to be overwritten, and no handle needs them.
void Tape::lose(ValueId id, bool needed) {
  Value& value = this->value(id);
  value.strong = c10::Storage();
  value.lost = true;
  has_loose_ = has_loose_ || needed;
  if (needed) {
    taint_from_ = taint_from_ == kNone ? value.born : std::min(taint_from_, value.born);
  }
}

bool Tape::is_tainted(const Op& op) const {
  return std::any_of(op.tensors.begin(), op.tensors.end(), [&](const TensorArg& arg) {
    return arg.read && arg.value != kNone && value(arg.value).is_out_of_reach();
  });
}

/// Passes on to what was computed before that something is lost. What is still there is a constant from here on, so
/// that what is computed from it can be had again.
void Tape::taint() {
  for (OpId id = std::exchange(taint_from_, kNone); id < static_cast<OpId>(ops_.size()); ++id) {
    const Op& op = ops_[static_cast<size_t>(id)];
    const bool tainted = is_tainted(op);
    for (const Write& write : op.writes) {
      const ValueId base = value(write.after).base;
      if (tainted || (base != kNone && value(base).is_out_of_reach())) {
        taint(write.after);
      }
    }
    for (const Output& output : op.outputs) {
      if (tainted && output.value != kNone && value(output.value).producer == id) {
        taint(output.value);
      }
    }
  }
}

void Tape::taint(ValueId id) {
  Value& value = this->value(id);
  if (value.is_constant() || value.tainted) {
    return;
  }
  value.tainted = true;
  const StorageRecord& record = storages_[static_cast<size_t>(value.storage)];
  if (!record.weak.expired() && record.current == id && !record.changed_unseen()) {
    value.opaque = true;
    has_loose_ = true;
  }
}

bool Tape::can_be_replayed(ValueId id) {
  if (value(id).is_constant()) {
    return false;
  }
  if (taint_from_ != kNone) {
    taint();
  }
  return !value(id).tainted && (!has_loose_ || secure(id));
}

/// Holds all constants that the value is computed from. False if one of them is gone.
bool Tape::secure(ValueId id) {
  std::vector<ValueId> open = {id};
  std::vector<ValueId> seen;
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    if (next == kNone || value(next).secured) {
      continue;
    }
    Value& value = this->value(next);
    if (value.is_constant()) {
      if (value.strong) {
        continue;
      }
      const StorageRecord& record = storages_[static_cast<size_t>(value.storage)];
      auto storage = record.weak.lock();
      if (!storage || record.current != next || record.changed_unseen()) {
        lose(next, /*needed=*/true);
        std::for_each(seen.begin(), seen.end(), [&](ValueId other) { this->value(other).secured = false; });
        taint();
        return false;
      }
      hold(next, c10::Storage(std::move(storage)));
      continue;
    }
    value.secured = true;
    seen.push_back(next);
    open.push_back(value.base);
    for (const TensorArg& arg : ops_[static_cast<size_t>(value.producer)].tensors) {
      if (arg.read) {
        open.push_back(arg.value);
      }
    }
  }
  return true;
}

/// The values in `open` and all that they are computed from.
std::vector<bool> Tape::ancestors(std::vector<ValueId> open) const {
  std::vector<bool> found(values_.size());
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (id == kNone || found[static_cast<size_t>(id)]) {
      continue;
    }
    found[static_cast<size_t>(id)] = true;
    const Value& value = this->value(id);
    if (value.is_constant()) {
      continue;
    }
    open.push_back(value.base);
    for (const TensorArg& arg : ops_[static_cast<size_t>(value.producer)].tensors) {
      if (arg.read && !found[static_cast<size_t>(arg.value)]) {
        open.push_back(arg.value);
      }
    }
  }
  return found;
}

/// Whether a handle that holds nothing needs the value. Found anew only when handles have come or gone: an optimizer
/// overwrites one parameter after another.
bool Tape::is_needed_by_dropped(ValueId id) {
  if (needed_at_ != drop_changes_) {
    std::vector<ValueId> roots;
    for (const Holder* holder : holders_) {
      holder->for_each_needed(/*dropped_only=*/true, [&](ValueId value) { roots.push_back(value); });
    }
    needed_ = ancestors(std::move(roots));
    needed_at_ = drop_changes_;
  }
  return static_cast<size_t>(id) < needed_.size() && needed_[static_cast<size_t>(id)];
}

void Tape::sweep(Sweep how) {
  constexpr size_t kOps = 256;  // a sweep costs about what recording as many ops as it looks at does
  // What an op in flight needs is not on the tape yet.
  if (copies_sources_ || pending_ > 0) {
    return;
  }
  // What others hold too, as parameters are, would not be freed: then there is nothing to look for.
  const bool frees = std::any_of(strong_.begin(), strong_.end(), [&](ValueId id) {
    const c10::Storage& strong = value(id).strong;
    return strong && strong.use_count() == 1;
  });
  if (!frees) {
    next_sweep_ = ops_.size() + std::max(kOps, strong_.size());
    return;
  }
  std::vector<ValueId> roots;
  const auto is_gone = [&](int32_t index) {
    const StorageRecord& record = storages_[static_cast<size_t>(index)];
    const size_t users = record.weak.use_count();
    const Value& value = this->value(record.current);
    const size_t ours = value.strong && !value.copied ? 1 : 0;
    if (users > ours) {
      roots.push_back(record.current);
    }
    return users == 0;
  };
  living_.erase(std::remove_if(living_.begin(), living_.end(), is_gone), living_.end());
  if (how == Sweep::kForHandles) {
    roots.clear();
  }
  for (const Holder* holder : holders_) {
    holder->for_each_needed(/*dropped_only=*/false, [&](ValueId value) { roots.push_back(value); });
  }
  const std::vector<bool> needed = ancestors(std::move(roots));
  const auto let_go = [&](ValueId id) {
    const c10::Storage& strong = value(id).strong;
    const bool ours_alone = strong && strong.use_count() == 1;
    if (!needed[static_cast<size_t>(id)] && (ours_alone || how == Sweep::kForTensorsToo)) {
      lose(id, how == Sweep::kForHandles);
    }
    return !value(id).strong;
  };
  strong_.erase(std::remove_if(strong_.begin(), strong_.end(), let_go), strong_.end());
  const auto looked_at = static_cast<size_t>(std::count(needed.begin(), needed.end(), true)) + living_.size();
  next_sweep_ = ops_.size() + std::max(kOps, looked_at);
}

}  // namespace encore::tape
