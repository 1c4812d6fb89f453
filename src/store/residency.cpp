// Holding, copying, keeping and dropping: what becomes of a value in its own storage, and which moves there are.
#include <encore/error.h>

#include "base/check.h"
#include "store/move.h"

namespace encore::store {
namespace {

using tape::kNone;
using tape::StorageRecord;
using tape::Value;
using tape::ValueId;

std::atomic<uint32_t> g_backward{1};

}  // namespace

void begin_backward() {
  ++g_backward;
}

/// The table of docs/architecture.md.
bool Residency::may(Verb verb, Where from, Where to) {
  const bool ours = from == Where::kLost || from == Where::kCopied || from == Where::kHeld;
  switch (verb) {
    case Verb::kHold:
      return to == Where::kHeld && from != Where::kLost && from != Where::kCopied;
    case Verb::kCopy:
      return to == Where::kCopied && from != Where::kCopied;  // what is lost may be there still, if others hold it
    case Verb::kLose:
      return to == Where::kLost;
    case Verb::kForget:
      return from == Where::kHeld ? to > Where::kHeld : to == from;
    case Verb::kKeep:
      return ours ? to == from : to == Where::kKept;
    case Verb::kDrop:
      return from == Where::kKept ? to >= Where::kKept : to == from;
    case Verb::kReturn:
      return from > Where::kRetained ? to == Where::kRetained : to == from;
    case Verb::kRelease:
      return from == Where::kRetained ? to >= Where::kRetained : to == from;
    case Verb::kRest:
      return from == Where::kLoose ? to == Where::kResting : to == from;
    case Verb::kWake:
      return from == Where::kResting ? to >= Where::kResting : to == from;
  }
  return false;
}

Where Residency::where(ValueId id) const {
  const Place& here = place(id);
  if (here.own != Where::kLoose) {
    return here.own;
  }
  if (here.keepers > 0) {
    return Where::kKept;
  }
  if (where_retained(here)) {
    return Where::kRetained;
  }
  return is_resting(id) ? Where::kResting : Where::kLoose;
}

/// Compared closely once in a backward, by a glance after that.
bool Residency::is_unchanged(ValueId id, const c10::Storage& storage) const {
  const tape::Evidence* evidence = tape_.value(id).evidence.get();
  if (evidence == nullptr || !storage) {
    return true;
  }
  if (verified_in_.size() <= static_cast<size_t>(id)) {
    verified_in_.resize(tape_.num_values(), 0);
  }
  uint32_t& verified_in = verified_in_[static_cast<size_t>(id)];
  const uint32_t backward = g_backward.load();
  if (verified_in == backward) {
    return !evidence->fingerprint || evidence->fingerprint->looks_like(storage);
  }
  const bool unchanged = evidence->is_of(storage);
  verified_in = unchanged ? backward : 0;
  return unchanged;
}

c10::Storage Residency::resident(ValueId id) const {
  const Place& here = place(id);
  if (here.own == Where::kCopied) {
    return here.bytes;
  }
  const StorageRecord& record = tape_.storage_of(id);
  const bool is_current = tape_.is_current(id);
  // What is retained may be the storage itself, which ops go on to overwrite.
  if (where_retained(here)) {
    const Presence& presence = *here.presence;
    const bool is_apart = presence.retained.unsafeGetStorageImpl() != record.weak._unsafe_get_target() &&
                          record.version_now() == presence.retained_version;
    if (is_apart || is_current) {
      return presence.retained;
    }
  }
  if (is_current) {
    c10::Storage storage = here.bytes ? here.bytes : c10::Storage(record.weak.lock());
    const bool gone = !storage && is_constant(id);
    if (!gone && is_unchanged(id, storage)) {
      return storage;
    }
  }
  if (is_constant(id)) {
    throw ChangedError(
        "replay: " + tape_.describe_source(id) +
        " was changed in place after it was used; backward needs it as it was. Change it after backward, "
        "or change a clone");
  }
  return c10::Storage();
}

int64_t Residency::copied_bytes() const {
  int64_t bytes = 0;
  for (const ValueId id : owned_) {
    bytes += place(id).own == Where::kCopied ? tape_.value(id).nbytes : 0;
  }
  return bytes;
}

void Residency::hold(ValueId id, c10::Storage storage) {
  const Move move(*this, id, Verb::kHold);
  place(id).bytes = std::move(storage);
  place(id).own = Where::kHeld;
  owned_.push_back(id);
}

void Residency::copy(ValueId id, const c10::Storage& storage) {
  c10::Storage copied = tape::copy_storage(storage);  // which a budget may refuse: then nothing has changed
  const Move move(*this, id, Verb::kCopy);
  if (place(id).own != Where::kHeld) {
    owned_.push_back(id);
  }
  place(id).bytes = std::move(copied);
  place(id).own = Where::kCopied;
}

/// The bytes of a constant are about to be overwritten, or let go of, and no holding needs them.
void Residency::lose(ValueId id, bool needed) {
  const Move move(*this, id, Verb::kLose);
  place(id).bytes = c10::Storage();
  place(id).own = Where::kLost;
  has_loose_ = has_loose_ || needed;
  if (needed) {
    const tape::OpId born = tape_.value(id).born;
    taint_from_ = taint_from_ == kNone ? born : std::min(taint_from_, born);
    taint_before_ = static_cast<ValueId>(tape_.num_values());
  }
}

void Residency::forget(ValueId id) {
  const Move move(*this, id, Verb::kForget);
  Place& here = place(id);
  if (here.own == Where::kHeld) {
    here.bytes = c10::Storage();
    here.own = Where::kLoose;
  }
}

void Residency::count_kept(ValueId id, int32_t change) {
  const Move move(*this, id, change > 0 ? Verb::kKeep : Verb::kDrop);
  Place& here = place(id);
  const bool was_kept = here.keepers > 0;
  const int64_t keepers = static_cast<int64_t>(here.keepers) + change;
  ENCORE_CHECK(keepers >= 0 && keepers <= Place::kMostKeepers, "more dropped a value than kept it");
  here.keepers = static_cast<uint32_t>(keepers) & Place::kMostKeepers;
  if (!was_kept && here.keepers > 0) {
    here.kept_at = static_cast<int32_t>(kept_.size());
    kept_.push_back(id);
  } else if (was_kept && here.keepers == 0) {
    const ValueId last = kept_.back();
    kept_[static_cast<size_t>(here.kept_at)] = last;
    place(last).kept_at = here.kept_at;
    kept_.pop_back();
  }
}

void Residency::add(Holding& holding, const Holder& holder, HoldingList& of_holder, ValueId value, c10::Storage bytes) {
  holding.value_ = value;
  holding.holder_ = &holder;
  place(value).holdings.add(holding, HoldingList::By::kValue);
  of_holder.add(holding, HoldingList::By::kHolder);
  if (!bytes) {
    count_dropped(1);
    return;
  }
  holding.bytes_ = std::move(bytes);
  count_kept(value, 1);
}

void Residency::remove(Holding& holding, HoldingList& of_holder) {
  settle(holding);
  wake(holding);
  if (holding.keeps()) {
    holding.bytes_ = c10::Storage();
    count_kept(holding.value_, -1);
  } else {
    count_dropped(-1);
  }
  place(holding.value_).holdings.remove(holding, HoldingList::By::kValue);
  of_holder.remove(holding, HoldingList::By::kHolder);
}

void Residency::drop(Holding& holding) {
  if (holding.keeps()) {
    holding.bytes_ = c10::Storage();
    count_kept(holding.value_, -1);
    count_dropped(1);
  }
}

void Residency::move(Holding& holding, ValueId to) {
  ENCORE_CHECK(tape_.value(to).storage == tape_.value(holding.value_).storage, "a holding moved to another storage");
  ENCORE_CHECK(!holding.claimed_, "a holding moved that waits for what came back");
  wake(holding);  // of the older version
  if (holding.keeps()) {
    count_kept(holding.value_, -1);
    count_kept(to, 1);
  }
  place(holding.value_).holdings.remove(holding, HoldingList::By::kValue);
  place(to).holdings.add(holding, HoldingList::By::kValue);
  holding.value_ = to;
  count_dropped(0);  // is about another value now
}

c10::SmallVector<Holding*, 8> Residency::holdings_of(ValueId id, const Holder* holder) const {
  c10::SmallVector<Holding*, 8> found;
  place(id).holdings.for_each(HoldingList::By::kValue, [&](Holding& holding) {
    if (holder == nullptr || holding.holder() == holder) {
      found.push_back(&holding);
    }
  });
  return found;
}

std::vector<ValueId> Residency::held_values() const {
  std::vector<ValueId> values = kept_;
  std::copy_if(retained_.begin(), retained_.end(), std::back_inserter(values),
               [&](ValueId id) { return is_retained(id); });
  return values;
}

bool Residency::can_evict(ValueId id) {
  const Place& here = place(id);
  if (where_retained(here)) {
    return static_cast<int32_t>(here.presence->retained.use_count()) == references(id);
  }
  const StorageRecord& record = tape_.storage_of(id);
  const int32_t ours = references(id);
  return ours > 0 && record.current == id && static_cast<int32_t>(record.weak.use_count()) == ours &&
         can_be_replayed(id);
}

/// Whether its bytes, which are those that autograd has, are no longer what its op would make.
bool Residency::was_written_through_a_pointer(ValueId id) const {
  const tape::Evidence* evidence = tape_.value(id).evidence.get();
  const auto storage = tape_.storage_of(id).weak.lock();
  return evidence != nullptr && evidence->imprint && storage && tape_.is_current(id) &&
         !evidence->imprint->is_of(c10::Storage(storage));
}

bool Residency::evict(ValueId id) {
  if (!can_evict(id) || was_written_through_a_pointer(id)) {
    return false;
  }
  let_go(id);
  for (Holding* holding : holdings_of(id)) {
    drop(*holding);
  }
  return true;
}

int64_t Residency::book_bytes() const {
  return tape_.book_bytes() +
         static_cast<int64_t>(places_.size() * sizeof(Place) + living_.capacity() * sizeof(int32_t) +
                              (owned_.capacity() + kept_.capacity()) * sizeof(ValueId));
}

}  // namespace encore::store
