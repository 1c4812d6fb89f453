// Following a plan: holding, packing, dropping and bringing back values between events.
#include <encore/error.h>

#include "base/clock.h"
#include "budget/step_governor.h"

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

void StepGovernor::follow(size_t index) {
  if (followed_ > index || !setting_.find) {
    return;
  }
  followed_ = index + 1;
  const uint64_t path = journal_.events[index].path;
  const auto fits = [&](const Itinerary& plan) {
    return index < plan.model->path.size() && plan.model->path[index] == path;
  };
  if (itinerary_ ? !fits(*itinerary_) : index == 0) {
    if (itinerary_ && !figures_.left_plan) {
      const Event& event = journal_.events[index];
      figures_.left_plan = true;
      figures_.left_at = event.op == kNone ? event.node : region_.lock()->tape().describe_op(event.op);
    }
    itinerary_ = setting_.find(index, path);
    if (itinerary_) {
      figures_.left_plan = false;
      for (size_t earlier = 0; earlier < index; ++earlier) {
        act(earlier, /*compute_too=*/false);
      }
    }
  }
  if (itinerary_) {
    act(index, /*compute_too=*/true);
  }
}

/// What the plan says for the time after the event. A plan is advice: where it can't be followed, what is needed comes
/// back when it is asked for.
void StepGovernor::act(size_t index, bool compute_too) {
  if (itinerary_->after[index].empty()) {
    return;
  }
  try {
    for (const Action& action : itinerary_->after[index]) {
      act(action, compute_too);
    }
  } catch (...) {  // also what an operator of the user's throws: backward gets it where it asks for the value itself
    figures_.left_plan = true;
    figures_.left_at = what_was_thrown();
    itinerary_ = nullptr;
    forget_refusal();
  }
}

void StepGovernor::act(const Action& action, bool compute_too) {
  const auto region = region_.lock();
  store::Residency& residency = region->residency();
  const std::vector<ValueId>& values = itinerary_->model->units[static_cast<size_t>(action.step)].values;
  if (action.what == Do::kHold) {
    for (const ValueId value : values) {
      residency.pin(value);
    }
    return;
  }
  if (action.what == Do::kDrop) {
    for (const ValueId value : values) {
      residency.give_up(value);
      residency.unpin_form(value);
      residency.evict(value);
    }
    return;
  }
  if (action.what == Do::kPack) {
    for (const ValueId value : values) {
      if (residency.can_evict(value) && pack(value)) {
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
    region->bring_back(missing);
  }
  if (compute_too) {
    std::for_each(values.begin(), values.end(), [&](ValueId value) { residency.unpin_form(value); });
  }
}

/// Steps without a plan pack masks as soon as nobody else holds them, and let go of the whole where memory is wanted:
/// packing needs some itself. False if the value is no mask, or there is no room for its bits.
bool StepGovernor::pack(ValueId value) {
  const auto region = region_.lock();
  if (region->residency().is_form_pinned(value)) {
    return true;
  }
  const int64_t start = now_ns();
  std::shared_ptr<const store::Resting> form;
  packing_ = true;
  try {
    form = region->rest(value);
  } catch (...) {  // no room, or changed unseen, which shows when it is asked for
    forget_refusal();
  }
  packing_ = false;
  if (!form) {
    return false;
  }
  const int64_t duration = now_ns() - start;
  journal_.asides.push_back({"pack", start, duration});
  journal_.packings[value] = {form->form(), form->nbytes(), duration};
  if (setting_.limit_bytes != run::Meter::kNoLimit) {
    region->residency().pin_form(value, form);
  }
  return true;
}

}  // namespace encore::budget
