// Where the bytes of a value are, and how long what came back is held.
#include <encore/error.h>

#include "tape/tape.h"

namespace encore::tape {
namespace {

std::atomic<uint64_t> g_backward{1};

bool is_unchanged(const Value& value, const c10::Storage& storage) {
  if (!value.evidence || !value.evidence->fingerprint.has_value() || !storage) {
    return true;
  }
  Evidence& evidence = *value.evidence;
  const uint64_t backward = g_backward.load();
  if (evidence.verified_in == backward) {
    return evidence.fingerprint->looks_like(storage);
  }
  const bool unchanged = evidence.fingerprint->is_of(storage);
  evidence.verified_in = unchanged ? backward : 0;
  return unchanged;
}

}  // namespace

void begin_backward() {
  ++g_backward;
}

c10::Storage Tape::resident(ValueId id) const {
  const Value& value = this->value(id);
  if (value.copied && value.strong) {
    return value.strong;
  }
  const StorageRecord& record = storages_[static_cast<size_t>(value.storage)];
  const bool is_current = record.current == id && !record.changed_unseen();
  // What is retained may be the storage itself, which ops go on to overwrite.
  if (value.is_retained()) {
    const Presence& presence = *value.presence;
    const bool is_apart = presence.retained.unsafeGetStorageImpl() != record.weak._unsafe_get_target() &&
                          record.version_now() == presence.retained_version;
    if (is_apart || is_current) {
      return presence.retained;
    }
  }
  if (is_current) {
    c10::Storage storage = value.strong ? value.strong : c10::Storage(record.weak.lock());
    const bool gone = !storage && value.is_constant();
    if (!gone && is_unchanged(value, storage)) {
      return storage;
    }
  }
  if (value.is_constant()) {
    throw ChangedError(
        "replay: " + describe_source(id) +
        " was changed in place after it was used; backward needs it as it was. Change it after backward, "
        "or change a clone");
  }
  return c10::Storage();
}

at::Tensor Tape::tensor_over(ValueId id, const Geometry& geometry, const c10::Storage& storage) const {
  at::Tensor tensor = geometry.over(storage);
  const StorageRecord& record = storages_[static_cast<size_t>(value(id).storage)];
  if (record.counter.enabled()) {
    tensor.unsafeGetTensorImpl()->set_version_counter(record.counter);
  }
  return tensor;
}

void Tape::fingerprint_results(size_t first) {
  for (size_t i = first; i < storages_.size(); ++i) {
    const StorageRecord& record = storages_[i];
    const auto storage = record.weak.lock();
    Value& value = this->value(record.current);
    if (storage && !record.changed_unseen() && !value.source) {
      const bool needed = dropped_ > 0 && is_needed_by_dropped(record.current);
      value.set_fingerprint(Fingerprint::of(c10::Storage(storage), needed ? coverage() : Coverage::kGlance));
    }
  }
}

void Tape::retain(ValueId id, c10::Storage storage, int32_t claims) {
  Presence& presence = value(id).add_presence();
  presence.retained = std::move(storage);
  presence.retained_version = storages_[static_cast<size_t>(value(id).storage)].version_now();
  presence.claims = claims;
  if (retained_.size() >= next_prune_) {
    retained_.erase(
        std::remove_if(retained_.begin(), retained_.end(), [&](ValueId v) { return !value(v).is_retained(); }),
        retained_.end());
    next_prune_ = 2 * retained_.size() + 1024;
  }
  retained_.push_back(id);
}

void Tape::settle(ValueId id) {
  Presence& presence = *value(id).presence;
  if (--presence.claims == 0) {
    presence.retained = c10::Storage();
  }
}

void Tape::let_go(ValueId id) {
  if (Presence* presence = value(id).presence.get()) {
    presence->retained = c10::Storage();
    presence->claims = 0;
  }
}

void Tape::release_retained() {
  for (const ValueId id : retained_) {
    let_go(id);
  }
  retained_.clear();
  ++epoch_;
}

}  // namespace encore::tape
