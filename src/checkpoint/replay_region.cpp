// Keeping, dropping and bringing back.
#include "checkpoint/replay_region.h"

#include <encore/error.h>

#include "checkpoint/replay_handle.h"
#include "record/backward.h"
#include "run/allocator.h"
#include "run/replay.h"

namespace encore {

using record::Saved;
using tape::ValueId;

ReplayRegion::ReplayRegion(std::shared_ptr<tape::Tape> tape, tape::OpId first, std::shared_ptr<ReplayRegion> parent,
                           RegionOptions options)
    : Region(first),
      tape_(std::move(tape)),
      parent_(std::move(parent)),
      options_(std::move(options)),
      path_(options_.name),
      // What lies inside a region that is recomputed together would otherwise have that done for each of its values.
      together_(options_.together || (parent_ && parent_->together_)) {
  if (parent_ && !parent_->path_.empty()) {
    path_ = path_.empty() ? parent_->path_ : parent_->path_ + "/" + path_;
  }
  if (options_.check == DeterminismCheck::kValues) {
    tape_->watch_every_byte();
  }
  tape_->add_holder(this);
}

ReplayRegion::~ReplayRegion() {
  // Entries are handles of the same tape, in outer regions.
  const std::lock_guard<RecursiveMutex> lock(tape_->mutex());
  entries_.clear();
  tape_->remove_holder(this);
}

void ReplayRegion::for_each_needed(bool dropped_only, const std::function<void(ValueId)>& visit) const {
  handles_.for_each([&](const ReplayHandle& handle) {
    if (!dropped_only || handle.is_dropped()) {
      visit(handle.value());
    }
  });
}

void ReplayRegion::overwritten_unseen(ValueId before, const SaveAnew& save_anew) {
  for (ReplayHandle* handle : handles_.of(before)) {  // they take themselves off
    handle->overwritten_unseen(save_anew);
  }
}

ValueInfo ReplayRegion::info_of(ValueId id) const {
  const tape::Value& value = tape_->value(id);
  const tape::Op& op = tape_->ops()[static_cast<size_t>(value.producer)];
  ValueId first = id;
  bool random = op.random != nullptr;
  while (tape_->value(first).base != tape::kNone && tape_->value(tape_->value(first).base).producer != tape::kNone) {
    first = tape_->value(first).base;
    random = random || tape_->ops()[static_cast<size_t>(tape_->value(first).producer)].random != nullptr;
  }
  const tape::Op& maker = tape_->ops()[static_cast<size_t>(tape_->value(first).producer)];
  return {op.info->name, path_, value.nbytes, random, maker.info->name};
}

std::shared_ptr<Saved> ReplayRegion::save(ValueId value, const at::Tensor& tensor) {
  const Action action = action_on(value);
  // What its own op has overwritten by now, autograd having saved it before, can't be kept any more.
  const bool overwritten = tape_->find(tensor) != value;
  const bool keep = !overwritten && (action == Action::kKeep || !tape_->can_be_replayed(value));
  count_saved(value, tape_->value(value).nbytes, keep);
  auto handle = std::make_shared<ReplayHandle>(shared_from_this(), value, tensor, keep);
  if (action == Action::kPack && !keep && !overwritten) {
    const auto form = resting(value, tensor, nullptr);
    for (ReplayHandle* sibling : handles_.of(value)) {  // also those of parts, which can't be packed by themselves
      sibling->hold_resting(form);
    }
  }
  return handle;
}

Action ReplayRegion::action_on(ValueId value) const {
  if (marked_.count(value) > 0) {
    return Action::kRecompute;
  }
  if (options_.governor) {
    return options_.governor->keeps(value) ? Action::kKeep : Action::kRecompute;
  }
  return options_.policy(info_of(value));
}

/// The value's smaller form, which all its handles share; null if it has none.
std::shared_ptr<const tape::Resting> ReplayRegion::resting(ValueId value, const at::Tensor& tensor,
                                                           const store::Candidate* candidate) {
  if (auto form = tape_->value(value).resting()) {
    return form;
  }
  auto form = store::rest(tensor, candidate);
  if (form) {
    tape_->value(value).add_presence().resting = form;
    for (ReplayRegion* region = this; region != nullptr; region = region->parent_.get()) {
      region->stats_.bytes_packed += form->nbytes();
    }
  }
  return form;
}

void ReplayRegion::count_saved(ValueId value, int64_t bytes, bool kept) {
  if (!handles_.count_once(value)) {
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
  for (ReplayHandle* handle : handles_.of(before)) {
    if (handle->survives(part)) {
      handle->move_to(after);
      moved = true;
    }
  }
  if (moved && handles_.is_counted(before)) {
    handles_.count_once(after);
  }
}

void ReplayRegion::enter(ValueId value, const std::shared_ptr<Saved>& saved) {
  entries_.emplace(value, saved);
}

void ReplayRegion::mark(ValueId value) {
  if (!marked_.insert(value).second) {
    return;
  }
  const bool possible = tape_->can_be_replayed(value);
  if (run::anyone_listens()) {
    run::tell_marked(label() + "/" + std::string(info_of(value).op), possible ? "" : "it can't be recomputed: kept");
  }
  if (!possible) {
    return;
  }
  const auto handles = handles_.of(value);
  if (handles.empty()) {
    return;
  }
  const auto form = tape_->value(value).resting();
  bool was_kept = false;
  for (ReplayHandle* handle : handles) {
    was_kept = was_kept || !handle->is_dropped();
    handle->drop();
    handle->hold_resting(nullptr);
  }
  for (ReplayRegion* region = this; region != nullptr && form; region = region->parent_.get()) {
    region->stats_.bytes_packed -= form->nbytes();
  }
  if (was_kept && handles_.is_counted(value)) {
    handles_.forget_count(value);
    const int64_t bytes = tape_->value(value).nbytes;
    for (ReplayRegion* region = this; region != nullptr; region = region->parent_.get()) {
      --region->stats_.values_kept;
      region->stats_.bytes_kept -= bytes;
    }
    count_saved(value, bytes, /*kept=*/false);
  }
}

void ReplayRegion::count_marked_constant() {
  ++stats_.marked_but_kept;
  if (run::anyone_listens()) {
    run::tell_marked(label() + "/input",
                     "it comes from outside the scope, there is nothing to recompute it from: kept");
  }
}

void ReplayRegion::opened() {
  first_storage_ = static_cast<size_t>(tape_->num_storages());
  if (run::anyone_listens()) {
    run::tell_region_opened(shared_from_this());
  }
}

void ReplayRegion::closed() {
  {
    const std::lock_guard<RecursiveMutex> lock(tape_->mutex());
    last_ = static_cast<tape::OpId>(tape_->ops().size());
    tape_->fingerprint_results(first_storage_);
  }
  if (run::anyone_listens()) {
    run::tell_region_closed(shared_from_this());
  }
}

run::RegionFigures ReplayRegion::figures() const {
  const std::lock_guard<RecursiveMutex> lock(tape_->mutex());
  run::RegionFigures figures;
  std::set<int32_t> storages;  // a storage is kept, or dropped, once
  for (const ValueId id : handles_.values()) {
    const tape::Value& value = tape_->value(id);
    if (!storages.insert(value.storage).second) {
      continue;
    }
    const ValueInfo info = info_of(id);
    if (handles_.num_kept(id) > 0) {
      ++(options_.policy(info) == Action::kKeep ? figures.kept_by_policy : figures.kept_by_need);
      figures.bytes_kept += value.nbytes;
    } else {
      figures.dropped.push_back({tape_, value.storage, value.nbytes, tape_->storage(value.storage).weak.expired(),
                                 marked_.count(id) > 0, std::string(info.op)});
    }
  }
  return figures;
}

ScopeStats ReplayRegion::stats() const {
  ScopeStats stats = stats_;
  stats.ops_recorded = last_.value_or(static_cast<tape::OpId>(tape_->ops().size())) - first();
  return stats;
}

c10::Storage ReplayRegion::fetch(const ReplayHandle& handle) {
  if (c10::Storage storage = tape_->resident(handle.value())) {
    return storage;
  }
  if (const auto form = tape_->value(handle.value()).resting(); form && !options_.governor) {
    return form->whole();
  }
  if (!together_) {
    bring_back({handle.value()});
  } else if (options_.group) {
    bring_back_group();
  } else {
    bring_back(missing());
  }
  return tape_->value(handle.value()).retained();
}

void ReplayRegion::bring_back_group() {
  for (const auto& region : options_.group->alive()) {
    // Functions called outside any scope have tapes of their own. One that another thread is busy with can't be waited
    // for: that thread may be waiting for ours.
    const std::unique_lock<RecursiveMutex> lock(region->tape_->mutex(), std::try_to_lock);
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

bool ReplayRegion::is_missing(ValueId value) const {
  return handles_.has_dropped(value) && !tape_->value(value).is_resting() && !tape_->resident(value);
}

std::vector<ValueId> ReplayRegion::missing() const {
  std::vector<ValueId> values = handles_.values();
  values.erase(std::remove_if(values.begin(), values.end(), [&](ValueId value) { return !is_missing(value); }),
               values.end());
  return values;
}

/// Holds a value that came back until every handle that waits for it has had it.
void ReplayRegion::hold(ValueId value, const c10::Storage& storage) {
  int32_t claims = options_.governor && options_.governor->holds_what_came_back() ? 1 : 0;
  for (ReplayHandle* handle : handles_.of(value)) {
    if (handle->is_dropped()) {
      handle->claim(tape_->epoch());
      ++claims;
    }
  }
  tape_->retain(value, storage, std::max(1, claims));
}

int32_t ReplayRegion::references(ValueId value) const {
  return (tape_->value(value).is_retained() ? 1 : 0) + handles_.num_kept(value);
}

std::vector<ValueId> ReplayRegion::held_values() const {
  std::vector<ValueId> values = handles_.kept_values();
  std::copy_if(tape_->retained().begin(), tape_->retained().end(), std::back_inserter(values),
               [&](ValueId value) { return tape_->value(value).is_retained(); });
  return values;
}

int64_t ReplayRegion::missing_bytes() const {
  std::vector<bool> seen(static_cast<size_t>(tape_->num_storages()));  // a storage is missing once
  int64_t bytes = 0;
  handles_.for_each([&](const ReplayHandle& handle) {
    const tape::Value& value = tape_->value(handle.value());
    const auto storage = static_cast<size_t>(value.storage);
    if (!seen[storage] && tape_->storage(value.storage).weak.expired()) {
      seen[storage] = true;
      bytes += value.nbytes;
    }
  });
  return bytes;
}

void ReplayRegion::hold_resident(ValueId value) {
  if (c10::Storage storage = tape_->resident(value); storage && !tape_->value(value).is_retained()) {
    tape_->retain(value, std::move(storage), 1);
  }
}

bool ReplayRegion::can_evict(ValueId value) const {
  const tape::Value& entry = tape_->value(value);
  if (entry.is_retained()) {
    return static_cast<int32_t>(entry.presence->retained.use_count()) == references(value);
  }
  const tape::StorageRecord& record = tape_->storage(entry.storage);
  const int32_t ours = references(value);
  return ours > 0 && record.current == value && static_cast<int32_t>(record.weak.use_count()) == ours &&
         tape_->can_be_replayed(value);
}

bool ReplayRegion::evict(ValueId value) {
  if (!can_evict(value)) {
    return false;
  }
  if (tape_->value(value).is_retained()) {
    tape_->let_go(value);
  }
  for (ReplayHandle* handle : handles_.of(value)) {
    handle->drop();
  }
  return true;
}

std::shared_ptr<const tape::Resting> ReplayRegion::rest(ValueId value) {
  const run::AccountScope account(run::Account::kReplayed);
  const tape::Op& op = tape_->ops()[static_cast<size_t>(tape_->value(value).producer)];
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
  const c10::Storage storage = tape_->resident(value);
  return storage ? resting(value, whole->geometry->over(storage), &candidate) : nullptr;
}

void ReplayRegion::bring_back(const std::vector<ValueId>& targets) {
  const record::Recorder::Pause pause;
  run::ReplayTimer timer;
  run::ReplayRequest request;
  request.first = first();
  request.targets = targets;
  request.check_metadata = options_.check != DeterminismCheck::kNone;
  request.enter = [&](ValueId value) { return entries_.at(value)->get().storage(); };
  const bool ahead_of_time = options_.governor && options_.governor->holds_what_came_back();
  request.wanted = [&](ValueId value) {
    return !ahead_of_time && (is_missing(value) || (options_.governor && options_.governor->wants(value)));
  };
  request.take = [&](ValueId value, const c10::Storage& storage) { hold(value, storage); };
  record::release_after_backward([weak = std::weak_ptr<tape::Tape>(tape_)] {
    if (const auto tape = weak.lock()) {
      const std::lock_guard<RecursiveMutex> lock(tape->mutex());
      tape->release_retained();
    }
  });
  const run::Replayed replayed = run::replay(*tape_, request);
  if (options_.governor) {
    options_.governor->replayed(replayed.ops, replayed.start_ns, replayed.duration_ns);
  }
  for (ReplayRegion* region = this; region != nullptr; region = region->parent_.get()) {
    ++region->stats_.replays;
    region->stats_.ops_replayed += replayed.ops;
    region->stats_.replay_ns += replayed.duration_ns;
  }
  timer.done(label(), replayed.ops);
}

}  // namespace encore
