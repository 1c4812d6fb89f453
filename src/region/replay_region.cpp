// Keeping, dropping and bringing back.
#include "region/replay_region.h"

#include <encore/error.h>

#include "record/backward.h"
#include "region/replay_handle.h"
#include "region/replay_timer.h"
#include "run/allocator.h"
#include "run/replay.h"

namespace encore::region {

using record::Saved;
using tape::ValueId;

ReplayRegion::ReplayRegion(std::shared_ptr<store::Residency> residency, tape::OpId first,
                           std::shared_ptr<ReplayRegion> parent, RegionOptions options)
    : Region(first, options.governor ? options.governor : options.subscriber),
      residency_(std::move(residency)),
      tape_(residency_->tape()),
      parent_(std::move(parent)),
      options_(std::move(options)),
      path_(options_.name),
      // What lies inside a region that is recomputed together would otherwise have that done for each of its values.
      together_(options_.together || (parent_ && parent_->together_)) {
  if (parent_ && !parent_->path_.empty()) {
    path_ = path_.empty() ? parent_->path_ : parent_->path_ + "/" + path_;
  }
  if (options_.check == DeterminismCheck::kValues) {
    residency_->watch_every_byte();
  }
  residency_->add_holder(this);
}

ReplayRegion::~ReplayRegion() {
  // Entries are handles of the same tape, in outer regions.
  const std::lock_guard<RecursiveMutex> lock(tape_.mutex());
  entries_.clear();
  residency_->remove_holder(this);
}

void ReplayRegion::for_each_needed(bool dropped_only, const std::function<void(ValueId)>& visit) const {
  handles_.for_each(store::HoldingList::By::kHolder, [&](const store::Holding& handle) {
    if (!dropped_only || !handle.keeps()) {
      visit(handle.value());
    }
  });
}

ValueInfo ReplayRegion::info_of(ValueId id) const {
  const tape::Value& value = tape_.value(id);
  const tape::Op& op = tape_.op(value.producer);
  ValueId first = id;
  bool random = op.random != nullptr;
  while (tape_.value(first).base != tape::kNone && tape_.value(tape_.value(first).base).producer != tape::kNone) {
    first = tape_.value(first).base;
    random = random || tape_.op(tape_.value(first).producer).random != nullptr;
  }
  const tape::Op& maker = tape_.op(tape_.value(first).producer);
  return {op.info->name, path_, value.nbytes, random, maker.info->name};
}

std::shared_ptr<Saved> ReplayRegion::save(ValueId value, const at::Tensor& tensor) {
  const Action action = action_on(value);
  // What its own op has overwritten by now, autograd having saved it before, can't be kept any more.
  const bool overwritten = !tape_.is_current(value);
  const bool keep = !overwritten && (action == Action::kKeep || !residency_->can_be_replayed(value));
  count_saved(value, tape_.value(value).nbytes, keep);
  auto handle = std::make_shared<ReplayHandle>(shared_from_this(), value, tensor, keep);
  if (action == Action::kPack && !keep && !overwritten) {
    const auto form = resting(value, tensor, nullptr);
    for (store::Holding* sibling :
         residency_->holdings_of(value, this)) {  // also of parts, which can't rest themselves
      residency_->rest(*sibling, form);
    }
  }
  return handle;
}

Action ReplayRegion::action_on(ValueId value) const {
  if (marked_.count(value) > 0) {
    return Action::kRecompute;
  }
  if (options_.governor) {
    return residency_->is_given_up(value) ? Action::kRecompute : Action::kKeep;
  }
  return options_.policy(info_of(value));
}

/// The value's smaller form, which all its handles share; null if it has none.
std::shared_ptr<const store::Resting> ReplayRegion::resting(ValueId value, const at::Tensor& tensor,
                                                            const store::Candidate* candidate) {
  if (auto form = residency_->form(value)) {
    return form;
  }
  auto form = store::rest(tensor, candidate);
  if (form) {
    for (ReplayRegion* region = this; region != nullptr; region = region->parent_.get()) {
      region->stats_.bytes_packed += form->nbytes();
    }
  }
  return form;
}

void ReplayRegion::count_saved(ValueId value, int64_t bytes, bool kept) {
  if (!counted_.insert(value).second) {
    return;
  }
  for (ReplayRegion* region = this; region != nullptr; region = region->parent_.get()) {
    ++(kept ? region->stats_.values_kept : region->stats_.values_dropped);
    (kept ? region->stats_.bytes_kept : region->stats_.bytes_dropped) += bytes;
  }
}

/// LSTMs compute four gates in place in the quarters of one storage: the last version holds them all, and bringing the
/// earlier ones back would take four storages.
void ReplayRegion::overwritten(ValueId before, ValueId after, const tape::Geometry& part, bool) {
  bool moved = false;
  for (store::Holding* handle : residency_->holdings_of(before, this)) {
    if (static_cast<ReplayHandle*>(handle)->survives(part)) {
      residency_->move(*handle, after);
      moved = true;
    }
  }
  if (moved && counted_.count(before) > 0) {
    counted_.insert(after);
  }
}

void ReplayRegion::enter(ValueId value, const std::shared_ptr<Saved>& saved) {
  entries_.emplace(value, saved);
}

void ReplayRegion::mark(ValueId value) {
  if (!marked_.insert(value).second) {
    return;
  }
  const bool possible = residency_->can_be_replayed(value);
  if (record::anyone_listens()) {
    record::tell_listeners(&Subscriber::marked, label() + "/" + std::string(info_of(value).op),
                           possible ? "" : "it can't be recomputed: kept");
  }
  if (!possible) {
    return;
  }
  const auto handles = residency_->holdings_of(value, this);
  if (handles.empty()) {
    return;
  }
  const auto form = residency_->form(value);
  bool was_kept = false;
  for (store::Holding* handle : handles) {
    was_kept = was_kept || handle->keeps();
    residency_->drop(*handle);
    residency_->rest(*handle, nullptr);
  }
  for (ReplayRegion* region = this; region != nullptr && form; region = region->parent_.get()) {
    region->stats_.bytes_packed -= form->nbytes();
  }
  if (was_kept && counted_.erase(value) > 0) {
    const int64_t bytes = tape_.value(value).nbytes;
    for (ReplayRegion* region = this; region != nullptr; region = region->parent_.get()) {
      --region->stats_.values_kept;
      region->stats_.bytes_kept -= bytes;
    }
    count_saved(value, bytes, /*kept=*/false);
  }
}

void ReplayRegion::count_marked_constant() {
  ++stats_.marked_but_kept;
  if (record::anyone_listens()) {
    record::tell_listeners(&Subscriber::marked, label() + "/input",
                           "it comes from outside the scope, there is nothing to recompute it from: kept");
  }
}

void ReplayRegion::opened() {
  first_storage_ = static_cast<size_t>(tape_.num_storages());
  record::tell_listeners(&Subscriber::region_opened, shared_from_this());
}

void ReplayRegion::closed() {
  {
    const std::lock_guard<RecursiveMutex> lock(tape_.mutex());
    last_ = static_cast<tape::OpId>(tape_.ops().size());
    record::Writer(*residency_).fingerprint_results(first_storage_);
  }
  record::tell_listeners(&Subscriber::region_closed, shared_from_this());
}

record::RegionFigures ReplayRegion::figures() const {
  const std::lock_guard<RecursiveMutex> lock(tape_.mutex());
  record::RegionFigures figures;
  std::set<int32_t> storages;  // a storage is kept, or dropped, once
  for (const ValueId id : saved_values()) {
    const tape::Value& value = tape_.value(id);
    if (!storages.insert(value.storage).second) {
      continue;
    }
    const ValueInfo info = info_of(id);
    if (is_kept(id)) {
      ++(options_.policy(info) == Action::kKeep ? figures.kept_by_policy : figures.kept_by_need);
      figures.bytes_kept += value.nbytes;
    } else {
      figures.dropped.push_back({residency_, value.storage, value.nbytes, tape_.storage(value.storage).weak.expired(),
                                 marked_.count(id) > 0, std::string(info.op)});
    }
  }
  return figures;
}

ScopeStats ReplayRegion::stats() const {
  ScopeStats stats = stats_;
  stats.ops_recorded = last_.value_or(static_cast<tape::OpId>(tape_.ops().size())) - first();
  return stats;
}

c10::Storage ReplayRegion::fetch(const ReplayHandle& handle) {
  if (c10::Storage storage = residency_->resident(handle.value())) {
    return storage;
  }
  if (const auto form = residency_->form(handle.value()); form && !options_.governor) {
    return form->whole();
  }
  if (!together_) {
    bring_back({handle.value()});
  } else if (options_.group) {
    bring_back_group();
  } else {
    bring_back(missing());
  }
  return residency_->retained(handle.value());
}

void ReplayRegion::bring_back_group() {
  for (const auto& region : options_.group->alive()) {
    // Functions called outside any scope have tapes of their own. One that another thread is busy with can't be waited
    // for: that thread may be waiting for ours.
    const std::unique_lock<RecursiveMutex> lock(region->tape_.mutex(), std::try_to_lock);
    if (!lock.owns_lock()) {
      continue;
    }
    const auto targets = region->missing();
    if (region.get() == this) {
      region->bring_back(targets);
    } else if (!targets.empty()) {
      try {
        region->bring_back(targets);
      } catch (const Error&) {
        // Its own backward, which may never run, is told when it asks.
      }
    }
  }
}

void RegionGroup::add(const std::shared_ptr<ReplayRegion>& region) {
  const std::lock_guard<std::mutex> lock(mutex);
  regions.erase(std::remove_if(regions.begin(), regions.end(), [](const auto& weak) { return weak.expired(); }),
                regions.end());
  regions.push_back(region);
}

std::vector<std::shared_ptr<ReplayRegion>> RegionGroup::alive() {
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<std::shared_ptr<ReplayRegion>> found;
  for (const auto& weak : regions) {
    if (auto region = weak.lock()) {
      found.push_back(std::move(region));
    }
  }
  return found;
}

bool ReplayRegion::is_kept(ValueId value) const {
  const auto handles = residency_->holdings_of(value, this);
  return std::any_of(handles.begin(), handles.end(), [](const auto* handle) { return handle->keeps(); });
}

bool ReplayRegion::is_missing(ValueId value) const {
  const auto handles = residency_->holdings_of(value, this);
  const bool waits = std::any_of(handles.begin(), handles.end(), [](const auto* handle) { return !handle->keeps(); });
  return waits && !residency_->is_resting(value) && !residency_->resident(value);
}

/// Every value with a handle, in order.
std::vector<ValueId> ReplayRegion::saved_values() const {
  std::vector<ValueId> values;
  for_each_needed(/*dropped_only=*/false, [&](ValueId value) { values.push_back(value); });
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::vector<ValueId> ReplayRegion::missing() const {
  std::vector<ValueId> values = saved_values();
  values.erase(std::remove_if(values.begin(), values.end(), [&](ValueId value) { return !is_missing(value); }),
               values.end());
  return values;
}

int64_t ReplayRegion::missing_bytes() const {
  std::vector<bool> seen(static_cast<size_t>(tape_.num_storages()));  // a storage is missing once
  int64_t bytes = 0;
  handles_.for_each(store::HoldingList::By::kHolder, [&](const store::Holding& handle) {
    const tape::Value& value = tape_.value(handle.value());
    const auto storage = static_cast<size_t>(value.storage);
    if (!seen[storage] && tape_.storage(value.storage).weak.expired()) {
      seen[storage] = true;
      bytes += value.nbytes;
    }
  });
  return bytes;
}

std::shared_ptr<const store::Resting> ReplayRegion::rest(ValueId value) {
  const run::AccountScope account(run::Account::kReplayed);
  const tape::Op& op = tape_.op(tape_.value(value).producer);
  const auto whole = std::find_if(op.outputs.begin(), op.outputs.end(),
                                  [&](const tape::Output& output) { return output.value == value; });
  if (whole == op.outputs.end()) {
    return nullptr;
  }
  const store::Candidate candidate{whole->geometry->dtype, info_of(value).random};
  const auto& forms = store::forms();
  if (std::none_of(forms.begin(), forms.end(), [&](const auto* form) { return form->may_serve(candidate); })) {
    return nullptr;
  }
  const c10::Storage storage = residency_->resident(value);
  return storage ? resting(value, whole->geometry->over(storage), &candidate) : nullptr;
}

void ReplayRegion::bring_back(const std::vector<ValueId>& targets) {
  const record::Recorder::Pause pause;
  const ReplayTimer timer;
  run::ReplayRequest request;
  request.first = first();
  request.targets = targets;
  request.check_metadata = options_.check != DeterminismCheck::kNone;
  request.enter = [&](ValueId value) { return entries_.at(value)->get().storage(); };
  const bool ahead_of_time = options_.governor && options_.governor->holds_what_came_back();
  request.wanted = [&](ValueId value) {
    return !ahead_of_time && (is_missing(value) || (options_.governor && options_.governor->wants(value)));
  };
  request.take = [&](ValueId value, const c10::Storage& storage) {
    residency_->came_back(value, storage, *this, ahead_of_time);
  };
  record::release_after_backward([weak = std::weak_ptr<store::Residency>(residency_)] {
    if (const auto residency = weak.lock()) {
      const std::lock_guard<RecursiveMutex> lock(residency->tape().mutex());
      residency->release_retained();
    }
  });
  const run::Replayed replayed = run::replay(*residency_, request);
  for (ReplayRegion* region = this; region != nullptr; region = region->parent_.get()) {
    ++region->stats_.replays;
    region->stats_.ops_replayed += replayed.ops;
    region->stats_.replay_ns += replayed.duration_ns;
  }
  const record::ReplayEvent event = timer.done(label(), replayed.ops);
  if (subscriber() != nullptr) {
    subscriber()->replayed(event);
  }
}

}  // namespace encore::region
