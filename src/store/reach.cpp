// What may still be asked for: holding what replay would need, and letting go of the rest.
#include "base/check.h"
#include "store/residency.h"

namespace encore::store {

using tape::kNone;
using tape::Op;
using tape::OpId;
using tape::StorageRecord;
using tape::TensorArg;
using tape::Value;
using tape::ValueId;

void Residency::op_begins() {
  if (tape_.ops().size() >= next_sweep_) {
    sweep(Sweep::kForTensorsToo);
  }
  ++ops_in_flight_;
}

void Residency::hand_out(ValueId id, const at::Tensor& tensor) {
  StorageRecord& record = tape_.storage(tape_.value(id).storage);
  record.watch(tensor);
  record.version = record.version_now() - 1;
}

void Residency::put_back(int32_t storage) {
  StorageRecord& record = tape_.storage(storage);
  record.version = static_cast<int64_t>(record.counter.current_version());
}

void Residency::reads(ValueId id, const at::Tensor& tensor, bool borrowed, bool keep_constants) {
  taint_before_use(id);
  Place& here = place(id);
  if (here.own == Where::kLost) {
    return;  // what is computed from it is kept
  }
  if (borrowed && keep_constants && !tensor.requires_grad() && here.own != Where::kCopied) {
    copy(id, tensor.storage());
  }
  // What a weight is updated by is not held: few need it again, and they can be kept.
  const bool holds = c10::GradMode::is_enabled() || !keep_constants;
  has_loose_ = has_loose_ || !holds;
  const bool is_held_once_read = tape_.value(id).source || (is_constant(id) && keep_constants);
  if (is_held_once_read && here.own == Where::kLoose && holds) {
    hold(id, tensor.storage());
  }
}

void Residency::overwrites(const tape::PendingOp& op, ValueId id, const c10::Storage& storage) {
  taint_before_use(id);
  const Value& value = tape_.value(id);
  if (op.info->metadata_only || place(id).own == Where::kCopied) {
    return;
  }
  const bool put_back = copies_sources_ && value.source && value.producer == kNone;
  if (put_back || op.watched_from != kNone) {
    if (put_back || value.producer < op.watched_from) {
      copy(id, storage);
    }
    return;
  }
  if (!is_constant(id)) {
    return;
  }
  // The op's own reading does not count, unless it returns more than what it writes.
  const auto own_reads = std::count_if(op.tensors.begin(), op.tensors.end(),
                                       [&](const TensorArg& arg) { return arg.value == id && arg.read; });
  const bool needed_by_itself = own_reads > 0 && op.info->returns_other;
  const bool needed = value.reads > own_reads || needed_by_itself;
  if (needed && num_dropped_ > 0 && (needed_by_itself || is_needed_by_dropped(id))) {
    copy(id, storage);
  } else {
    lose(id, needed);
  }
}

bool Residency::is_out_of_reach(const Op& op) const {
  return std::any_of(op.tensors.begin(), op.tensors.end(),
                     [&](const TensorArg& arg) { return arg.read && is_out_of_reach(arg.value); });
}

/// What is computed from here on sees for itself that something is lost. An optimizer, which loses one parameter after
/// another, uses nothing else.
void Residency::taint_before_use(ValueId id) {
  if (taint_from_ != kNone && id < taint_before_ && !tape_.value(id).source) {
    taint();
  }
}

/// Passes on to what was computed before that something is lost. What is still there is a constant from here on, so
/// that what is computed from it can be had again.
void Residency::taint() {
  for (OpId id = std::exchange(taint_from_, kNone); id < static_cast<OpId>(tape_.ops().size()); ++id) {
    const Op& op = tape_.ops()[static_cast<size_t>(id)];
    const bool tainted = is_out_of_reach(op);
    for (const tape::Write& write : op.writes) {
      const ValueId base = tape_.value(write.after).base;
      if (tainted || (base != kNone && is_out_of_reach(base))) {
        taint(write.after);
      }
    }
    for (const tape::Output& output : op.outputs) {
      if (tainted && output.value != kNone && tape_.value(output.value).producer == id) {
        taint(output.value);
      }
    }
  }
}

void Residency::taint(ValueId id) {
  Place& here = place(id);
  if (is_constant(id) || here.tainted) {
    return;
  }
  here.tainted = true;
  if (!tape_.storage_of(id).weak.expired() && tape_.is_current(id)) {
    here.made_constant = true;
    has_loose_ = true;
  }
}

bool Residency::can_be_replayed(ValueId id) {
  if (is_constant(id)) {
    return false;
  }
  taint_before_use(id);
  return !place(id).tainted && (!has_loose_ || secure(id));
}

/// Holds all constants that the value is computed from. False if one of them is gone.
bool Residency::secure(ValueId id) {
  std::vector<ValueId> open = {id};
  std::vector<ValueId> seen;
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    Place& here = place(next);
    if (here.secured) {
      continue;
    }
    if (!is_constant(next)) {
      here.secured = true;
      seen.push_back(next);
      tape_.for_each_read(next, [&](ValueId read) { open.push_back(read); });
      continue;
    }
    if (here.bytes) {
      continue;
    }
    auto storage = tape_.storage_of(next).weak.lock();
    if (!storage || !tape_.is_current(next) || here.own == Where::kLost) {
      lose(next, /*needed=*/true);
      std::for_each(seen.begin(), seen.end(), [&](ValueId other) { place(other).secured = false; });
      taint();
      return false;
    }
    hold(next, c10::Storage(std::move(storage)));
  }
  return true;
}

/// The values in `open` and all that they are computed from.
std::vector<bool> Residency::ancestors(std::vector<ValueId> open) const {
  std::vector<bool> found(tape_.num_values());
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (found[static_cast<size_t>(id)]) {
      continue;
    }
    found[static_cast<size_t>(id)] = true;
    if (!is_constant(id)) {
      tape_.for_each_read(id, [&](ValueId read) {
        if (!found[static_cast<size_t>(read)]) {
          open.push_back(read);
        }
      });
    }
  }
  return found;
}

std::vector<ValueId> Residency::needed_by_holders(bool dropped_only) const {
  std::vector<ValueId> values;
  for (const Holder* holder : holders_) {
    holder->for_each_needed(dropped_only, [&](ValueId value) { values.push_back(value); });
  }
  return values;
}

/// Found anew only when holdings have come or gone: an optimizer overwrites one parameter after another.
bool Residency::is_needed_by_dropped(ValueId id) {
  if (num_dropped_ == 0) {
    return false;
  }
  if (needed_at_ != drop_changes_) {
    needed_ = ancestors(needed_by_holders(/*dropped_only=*/true));
    needed_at_ = drop_changes_;
  }
  return static_cast<size_t>(id) < needed_.size() && needed_[static_cast<size_t>(id)];
}

/// Adds the values of storages that others use to `roots`.
void Residency::find_living(std::vector<ValueId>& roots) {
  for (; storages_seen_ < tape_.num_storages(); ++storages_seen_) {
    living_.push_back(storages_seen_);
  }
  const auto is_gone = [&](int32_t index) {
    const StorageRecord& record = tape_.storage(index);
    const size_t users = record.weak.use_count();
    const size_t ours = place(record.current).own == Where::kHeld ? 1 : 0;
    if (users > ours) {
      roots.push_back(record.current);
    }
    return users == 0;
  };
  living_.erase(std::remove_if(living_.begin(), living_.end(), is_gone), living_.end());
}

void Residency::sweep(Sweep how) {
  constexpr size_t kOps = 256;  // a sweep costs about what recording as many ops as it looks at does
  check_books();
  // What an op in flight needs is not on the tape yet.
  if (copies_sources_ || ops_in_flight_ > 0) {
    return;
  }
  // What others hold too, as parameters are, would not be freed: then there is nothing to look for.
  const bool frees = std::any_of(owned_.begin(), owned_.end(), [&](ValueId id) {
    const c10::Storage& bytes = place(id).bytes;
    return bytes && bytes.use_count() == 1;
  });
  if (!frees) {
    next_sweep_ = tape_.ops().size() + std::max(kOps, owned_.size());
    return;
  }
  std::vector<ValueId> roots = needed_by_holders(/*dropped_only=*/false);
  const size_t needed_by_handles = roots.size();
  find_living(roots);
  if (how == Sweep::kForHandles) {
    roots.resize(needed_by_handles);
  }
  const std::vector<bool> needed = ancestors(std::move(roots));
  const auto let_go = [&](ValueId id) {
    const c10::Storage& bytes = place(id).bytes;
    const bool ours_alone = bytes && bytes.use_count() == 1;
    if (!needed[static_cast<size_t>(id)] && (ours_alone || how == Sweep::kForTensorsToo)) {
      lose(id, how == Sweep::kForHandles);
    }
    return !place(id).bytes;
  };
  owned_.erase(std::remove_if(owned_.begin(), owned_.end(), let_go), owned_.end());
  const auto looked_at = static_cast<size_t>(std::count(needed.begin(), needed.end(), true)) + living_.size();
  next_sweep_ = tape_.ops().size() + std::max(kOps, looked_at);
}

/// What is counted is what is there.
void Residency::check_books() const {
#ifdef ENCORE_CHECKS
  for (size_t i = 0; i < places_.size(); ++i) {
    const Place& here = places_[i];
    const bool has_bytes = here.own == Where::kHeld || here.own == Where::kCopied;
    ENCORE_CHECK(static_cast<bool>(here.bytes) == has_bytes, "a value is held without bytes, or has bytes unheld");
    uint32_t keepers = 0;
    int32_t resters = 0;
    here.holdings.for_each(HoldingList::By::kValue, [&](const Holding& holding) {
      ENCORE_CHECK(holding.value() == static_cast<ValueId>(i), "a holding stands in another value's list");
      keepers += holding.keeps() ? 1 : 0;
      resters += holding.rests_ ? 1 : 0;
    });
    ENCORE_CHECK(keepers == here.keepers, "not as many keep a value as are counted");
    ENCORE_CHECK(keepers == 0 || kept_[static_cast<size_t>(here.kept_at)] == static_cast<ValueId>(i),
                 "a value that is kept is not in the list of those");
    if (here.presence) {
      const Presence& presence = *here.presence;
      ENCORE_CHECK(resters == presence.resters, "not as many share in a form as are counted");
      ENCORE_CHECK(static_cast<bool>(presence.form) == (resters > 0 || presence.form_pinned),
                   "a form is there that nobody needs, or is not there for who needs it");
      ENCORE_CHECK(!presence.retained || presence.claims > 0, "a value is retained for nobody");
    }
  }
#endif
}

}  // namespace encore::store
