// What a plan says, done.
#include "budget/follower.h"

#include "base/clock.h"
#include "budget/prices.h"

namespace encore::budget {
namespace {

using tape::kNone;
using tape::ValueId;

/// For use in a handler.
std::string what_was_thrown() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

}  // namespace

void Follower::follow(region::ReplayRegion& region, size_t index) {
  if (followed_ > index || !setting_.find) {
    return;
  }
  followed_ = index + 1;
  const Event& event = writer_.journal().events[index];
  const uint64_t path = event.path;
  const auto fits = [&](const Itinerary& plan) {
    return index < plan.model->path.size() && plan.model->path[index] == path;
  };
  if (itinerary_ ? !fits(*itinerary_) : index == 0) {
    if (itinerary_ && !left_at_) {
      left_at_ = event.op == kNone ? event.node : region.tape().describe_op(event.op);
    }
    itinerary_ = setting_.find(index, path);
    if (itinerary_) {
      left_at_.reset();
      for (size_t earlier = 0; earlier < index && itinerary_; ++earlier) {
        act(region, earlier, /*compute_too=*/false);
      }
    }
  }
  if (itinerary_) {
    act(region, index, /*compute_too=*/true);
  }
}

void Follower::leave(std::string where) {
  left_at_ = std::move(where);
  itinerary_ = nullptr;
}

/// What the plan says for the time after the event.
void Follower::act(region::ReplayRegion& region, size_t index, bool compute_too) {
  if (itinerary_->after[index].empty()) {
    return;
  }
  try {
    for (const Errand& errand : itinerary_->after[index]) {
      act(region, errand, compute_too);
    }
  } catch (...) {  // also what an operator of the user's throws: backward gets it where it asks for the value itself
    left_at_ = what_was_thrown();
    itinerary_ = nullptr;
    refused_.forget();
  }
}

void Follower::act(region::ReplayRegion& region, const Errand& errand, bool compute_too) {
  store::Residency& residency = region.residency();
  const std::vector<ValueId>& values = itinerary_->model->units[static_cast<size_t>(errand.step)].values;
  if (errand.what == Do::kHold) {
    for (const ValueId value : values) {
      residency.pin(value);
    }
    return;
  }
  if (errand.what == Do::kDrop) {
    for (const ValueId value : values) {
      residency.give_up(value);
      residency.unpin_form(value);
      residency.evict(value);
    }
    return;
  }
  if (errand.what == Do::kPack) {
    for (const ValueId value : values) {
      if (residency.can_evict(value) && pack(region, value)) {
        residency.give_up(value);
        residency.evict(value);
      }
    }
    return;
  }
  std::vector<ValueId> missing;
  std::copy_if(values.begin(), values.end(), std::back_inserter(missing),
               [&](ValueId v) { return !is_there(residency, v); });
  if (!missing.empty() && compute_too) {
    region.bring_back(missing);
  }
  if (compute_too) {
    std::for_each(values.begin(), values.end(), [&](ValueId value) { residency.unpin_form(value); });
  }
}

bool Follower::pack(region::ReplayRegion& region, ValueId value) {
  if (region.residency().is_form_pinned(value)) {
    return true;
  }
  const int64_t start = now_ns();
  std::shared_ptr<const store::Resting> form;
  packing_ = true;
  try {
    form = region.rest(value);
  } catch (...) {  // no room, or changed unseen, which shows when it is asked for
    refused_.forget();
  }
  packing_ = false;
  if (!form) {
    return false;
  }
  const int64_t duration = now_ns() - start;
  writer_.add_interlude({"pack", start, duration});
  writer_.packed(value, {form->form(), form->nbytes(), duration});
  if (setting_.limit_bytes != run::Meter::kNoLimit) {
    region.residency().pin_form(value, form);
  }
  return true;
}

}  // namespace encore::budget
