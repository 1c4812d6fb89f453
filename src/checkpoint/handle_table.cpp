// Lists that run through the handles.
#include "checkpoint/handle_table.h"

#include "checkpoint/replay_handle.h"

namespace encore {

using tape::ValueId;

void HandleTable::link(ReplayHandle& handle, Links ReplayHandle::*links, ReplayHandle*& first) {
  handle.*links = {nullptr, first};
  if (first != nullptr) {
    (first->*links).previous = &handle;
  }
  first = &handle;
}

void HandleTable::unlink(ReplayHandle& handle, Links ReplayHandle::*links, ReplayHandle*& first) {
  const Links here = handle.*links;
  (here.previous == nullptr ? first : (here.previous->*links).next) = here.next;
  if (here.next != nullptr) {
    (here.next->*links).previous = here.previous;
  }
  handle.*links = {};
}

const HandleTable::Stake* HandleTable::find(ValueId value) const {
  const auto found = by_value_.find(value);
  return found == by_value_.end() ? nullptr : found->second;
}

HandleTable::Stake& HandleTable::stake_of(ValueId value) {
  Stake*& stake = by_value_[value];
  if (stake == nullptr) {
    stake = &stakes_.emplace_back();
    stake->value = value;
  }
  return *stake;
}

void HandleTable::add(ReplayHandle& handle) {
  handle.stake_ = &stake_of(handle.value());
  link(handle, &ReplayHandle::of_region_, first_);
  link(handle, &ReplayHandle::of_value_, handle.stake_->first);
  ++size_;
}

void HandleTable::remove(ReplayHandle& handle) {
  unlink(handle, &ReplayHandle::of_region_, first_);
  unlink(handle, &ReplayHandle::of_value_, handle.stake_->first);
  --size_;
}

void HandleTable::move(ReplayHandle& handle, ValueId to) {
  unlink(handle, &ReplayHandle::of_value_, handle.stake_->first);
  handle.stake_ = &stake_of(to);
  link(handle, &ReplayHandle::of_value_, handle.stake_->first);
}

void HandleTable::count_kept(ReplayHandle& handle, int32_t change) {
  Stake& stake = *handle.stake_;
  const bool was_kept = stake.kept > 0;
  stake.kept += change;
  if (!was_kept && stake.kept > 0) {
    stake.place = static_cast<int32_t>(kept_.size());
    kept_.push_back(&stake);
  } else if (was_kept && stake.kept == 0) {
    Stake* last = kept_.back();
    kept_[static_cast<size_t>(stake.place)] = last;
    last->place = stake.place;
    kept_.pop_back();
  }
}

int32_t HandleTable::num_kept(ValueId value) const {
  const Stake* stake = find(value);
  return stake == nullptr ? 0 : stake->kept;
}

std::vector<ValueId> HandleTable::kept_values() const {
  std::vector<ValueId> values;
  values.reserve(kept_.size());
  std::transform(kept_.begin(), kept_.end(), std::back_inserter(values),
                 [](const Stake* stake) { return stake->value; });
  return values;
}

bool HandleTable::is_counted(ValueId value) const {
  const Stake* stake = find(value);
  return stake != nullptr && stake->counted;
}

c10::SmallVector<ReplayHandle*, 8> HandleTable::of(ValueId value) const {
  c10::SmallVector<ReplayHandle*, 8> handles;
  const Stake* stake = find(value);
  for (ReplayHandle* handle = stake == nullptr ? nullptr : stake->first; handle != nullptr;
       handle = handle->of_value_.next) {
    handles.push_back(handle);
  }
  return handles;
}

std::vector<ValueId> HandleTable::values() const {
  std::vector<ValueId> values;
  for_each([&](const ReplayHandle& handle) { values.push_back(handle.value()); });
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

bool HandleTable::has_dropped(ValueId value) const {
  const auto handles = of(value);
  return std::any_of(handles.begin(), handles.end(), [](const ReplayHandle* handle) { return handle->is_dropped(); });
}

}  // namespace encore
