// Resting and bringing back: a value that is there in another way than in its own storage.
#include "base/check.h"
#include "store/move.h"

namespace encore::store {

using tape::ValueId;

std::shared_ptr<const Resting> Residency::form(ValueId id) const {
  return place(id).presence ? place(id).presence->form : nullptr;
}

void Residency::rest(Holding& holding, const std::shared_ptr<const Resting>& form) {
  if (!form) {
    wake(holding);
    return;
  }
  const Move move(*this, holding.value_, Verb::kRest);
  Presence& presence = place(holding.value_).add_presence();
  ENCORE_CHECK(!presence.form || presence.form == form, "a value rests in two forms");
  presence.form = form;
  presence.resters += std::exchange(holding.rests_, true) ? 0 : 1;
}

void Residency::wake(Holding& holding) {
  if (std::exchange(holding.rests_, false)) {
    --place(holding.value_).presence->resters;
    drop_unused_form(holding.value_);
  }
}

void Residency::pin_form(ValueId id, const std::shared_ptr<const Resting>& form) {
  const Move move(*this, id, Verb::kRest);
  Presence& presence = place(id).add_presence();
  ENCORE_CHECK(!presence.form || presence.form == form, "a value rests in two forms");
  presence.form = form;
  if (!std::exchange(presence.form_pinned, true)) {
    ++num_pinned_forms_;
    pinned_forms_.push_back(id);
  }
}

void Residency::unpin_form(ValueId id) {
  if (is_form_pinned(id)) {
    place(id).presence->form_pinned = false;
    --num_pinned_forms_;
    drop_unused_form(id);
  }
}

void Residency::unpin_forms() {
  for (const ValueId id : std::exchange(pinned_forms_, {})) {
    unpin_form(id);
  }
}

void Residency::drop_unused_form(ValueId id) {
  const Move move(*this, id, Verb::kWake);
  Presence& presence = *place(id).presence;
  ENCORE_CHECK(presence.resters >= 0, "more woke a value than rested it");
  if (presence.resters == 0 && !presence.form_pinned) {
    presence.form.reset();
  }
}

void Residency::retain(ValueId id, c10::Storage storage, int32_t claims) {
  const Move move(*this, id, Verb::kReturn);
  Presence& presence = place(id).add_presence();
  presence.retained = std::move(storage);
  presence.retained_version = tape_.storage_of(id).version_now();
  presence.claims = claims;
  if (retained_.size() >= next_prune_) {
    retained_.erase(std::remove_if(retained_.begin(), retained_.end(), [&](ValueId v) { return !is_retained(v); }),
                    retained_.end());
    next_prune_ = 2 * retained_.size() + 1024;
  }
  retained_.push_back(id);
}

void Residency::came_back(ValueId id, c10::Storage storage, const Holder& waiting, bool pinned) {
  int32_t claims = pinned ? 1 : 0;
  for (Holding* holding : holdings_of(id, &waiting)) {
    if (!holding->keeps()) {
      holding->claimed_ = true;
      holding->epoch_ = epoch_;
      ++claims;
    }
  }
  retain(id, std::move(storage), std::max(1, claims));
}

void Residency::pin(ValueId id) {
  if (c10::Storage storage = resident(id); storage && !is_retained(id)) {
    retain(id, std::move(storage), 1);
  }
}

void Residency::settle(Holding& holding) {
  if (!std::exchange(holding.claimed_, false) || holding.epoch_ != epoch_) {
    return;
  }
  const Move move(*this, holding.value_, Verb::kRelease);
  Presence& presence = *place(holding.value_).presence;
  if (--presence.claims == 0) {
    presence.retained = c10::Storage();
  }
}

void Residency::let_go(ValueId id) {
  if (Presence* presence = place(id).presence.get()) {
    const Move move(*this, id, Verb::kRelease);
    presence->retained = c10::Storage();
    presence->claims = 0;
  }
}

void Residency::release_retained() {
  for (const ValueId id : retained_) {
    let_go(id);
  }
  retained_.clear();
  ++epoch_;
}

}  // namespace encore::store
