// Calling a function again, in the state it was first called in.
#include "region/rerun_region.h"

#include <ATen/core/grad_mode.h>

#include <encore/error.h>

#include "record/backward.h"
#include "region/replay_timer.h"
#include "tape/compat.h"

namespace encore::region {

std::shared_ptr<record::Saved> RerunRegion::save_next(const at::Tensor& tensor, const tape::OpInfo* op) {
  if (again_) {
    try {
      frame_->fill_next_slot(tensor, op);
    } catch (const Error&) {
      frame_->note_mismatch(std::current_exception());
      throw;
    }
    return record::keep_plainly(tensor, {record::version_of(tensor), nullptr, {}});
  }
  return frame_->add_slot(tensor, op);
}

// Only values that an opaque region made could come here, and those are constants of the tape.
std::shared_ptr<record::Saved> RerunRegion::save(tape::ValueId, const at::Tensor& tensor) {
  return record::keep_plainly(tensor, {record::version_of(tensor), nullptr, {}});
}

void RerunRegion::leaf_comes(const at::Tensor& leaf) {
  if (!again_) {
    frame_->note_gradient(leaf);
  }
}

void RerunRegion::overwritten(tape::ValueId before, tape::ValueId, const tape::Geometry&, bool has_history) {
  if (!again_ && has_history) {
    frame_->note_rewritten(before);
  }
}

void RerunRegion::overwritten_unseen() {
  if (!again_) {
    frame_->run_whole();
  }
}

void RerunRegion::closed() {
  if (!again_) {
    record::tell_listeners(&Subscriber::region_closed, frame_);
  }
}

record::RegionFigures RerunFrame::figures() const {
  const std::lock_guard<RecursiveMutex> lock(mutex_);
  record::RegionFigures figures;
  std::map<const c10::StorageImpl*, size_t> seen;  // storages held weakly keep their address
  for (const Slot& slot : slots_) {
    const c10::StorageImpl* storage = slot.storage._unsafe_get_target();
    if (*slot.handles > 0 && storage != nullptr && seen.emplace(storage, seen.size()).second) {
      figures.dropped.push_back({weak_from_this(), static_cast<int64_t>(seen.size()), slot.nbytes,
                                 slot.storage.expired(), false, slot.made_by});
    }
  }
  return figures;
}

RerunFrame::RerunFrame(RerunOptions options, const std::vector<at::Tensor>& inputs, Again again)
    : options_(std::move(options)),
      name_(std::make_shared<const std::string>(options_.name)),
      again_(std::move(again)),
      random_(at::detail::getDefaultCPUGenerator()),
      autocast_(compat::autocast_on_cpu()),
      autocast_dtype_(compat::autocast_cpu_dtype()),
      world_(tape::World::now()),
      dispatch_keys_(c10::impl::tls_local_dispatch_key_set()) {
  record::Recorder* recorder = record::Recorder::current();
  const bool recorded = recorder != nullptr && !record::Recorder::is_paused();
  std::vector<ViewThen> views = ViewThen::of(inputs);
  for (const at::Tensor& input : inputs) {
    Input entry;
    entry.view = std::move(views[inputs_.size()]);
    entry.identity = input.unsafeGetTensorImpl();
    entry.saved = recorded ? recorder->save_for_region(input, /*as_it_is=*/true) : nullptr;
    if (!entry.saved) {
      entry.tensor = tape::detached_alias(input);
    }
    if (tape::is_plain(input)) {
      entry.storage = input.storage().getWeakStorageImpl();
      entry.geometry = tape::Geometry::of(input);
    }
    entry.same_as = static_cast<size_t>(
        std::find_if(inputs.begin(), inputs.end(), [&](const auto& other) { return other.is_same(input); }) -
        inputs.begin());
    entry.requires_grad = input.requires_grad();
    entry.is_leaf = input.is_leaf();
    inputs_.push_back(std::move(entry));
  }
}

RerunFrame::~RerunFrame() {
  if (residency_) {
    const std::lock_guard<RecursiveMutex> lock(tape().mutex());
    residency_->remove_holder(this);
  }
}

/// Called again, the function reads what it read, and begins with what it overwrote.
void RerunFrame::for_each_needed(bool, const std::function<void(tape::ValueId)>& visit) const {
  const bool needed =
      last_ == 0 || std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) { return *s.handles > 0; });
  const tape::OpId end = last_ == 0 ? static_cast<tape::OpId>(tape().ops().size()) : last_;
  for (tape::OpId id = first_; needed && id < end; ++id) {
    const tape::Op& op = tape().ops()[static_cast<size_t>(id)];
    for (const tape::TensorArg& arg : op.tensors) {
      if (arg.read) {
        visit(arg.value);
      }
    }
    for (const tape::Write& write : op.writes) {
      visit(write.before);
    }
  }
}

std::string RerunFrame::who() const {
  return options_.name.empty() ? "checkpoint" : "checkpoint '" + options_.name + "'";
}

void RerunFrame::begin(std::shared_ptr<store::Residency> residency, tape::OpId first) {
  residency_ = std::move(residency);
  first_ = first;
  residency_->add_holder(this);  // its caller holds the tape's lock
}

void RerunFrame::end() {
  bool drew = random_.moved_on();  // the generator has a lock, which a thread may hold that waits for the tape's
  const std::lock_guard<RecursiveMutex> lock(tape().mutex());
  last_ = static_cast<tape::OpId>(tape().ops().size());
  for (Slot& slot : slots_) {
    slot.first.reset();
  }
  for (Input& input : inputs_) {
    if (input.tensor.defined()) {
      // Only now: the function itself may have changed it.
      record::AsSaved then = record::as_saved(input.tensor, record::version_of(input.tensor), tape());
      then.where = name_;
      input.saved = record::keep_plainly(input.tensor, std::move(then));
      input.tensor = at::Tensor();
    }
  }
  for (tape::OpId id = first_; id < last_; ++id) {
    drew = drew || tape().ops()[static_cast<size_t>(id)].random != nullptr;
  }
  if (!rewritten_.empty()) {
    throw InvalidArgument(
        who() + ": the function changes " + rewritten_ +
        " that it captures in place, and with it the tensor's gradient function; called again it would "
        "do so twice. Pass the tensor as an argument, or use kReplay");
  }
  if (drew && !options_.preserve_rng_state) {
    throw InvalidArgument(who() +
                          ": the function draws random numbers but preserve_rng_state is false, so calling it again "
                          "would give other gradients; set preserve_rng_state");
  }
}

void RerunFrame::note_rewritten(tape::ValueId before) {
  const tape::Value& value = tape().value(before);
  const c10::StorageImpl* storage = tape().storage(value.storage).weak._unsafe_get_target();
  const bool is_input = std::any_of(inputs_.begin(), inputs_.end(),
                                    [&](const Input& input) { return input.storage._unsafe_get_target() == storage; });
  if (value.producer < first_ && !is_input) {
    rewritten_ = "a tensor of " + std::to_string(value.nbytes) + " bytes";
  }
}

void RerunFrame::note_gradient(const at::Tensor& leaf) {
  const bool known =
      std::any_of(gradients_.begin(), gradients_.end(), [&](const auto& entry) { return entry.first.is_same(leaf); });
  if (!known) {
    const record::Recorder::Pause pause;
    const at::AutoGradMode no_grad(false);
    gradients_.emplace_back(leaf, leaf.grad().defined() ? leaf.grad().clone() : at::Tensor());
  }
}

std::vector<at::Tensor> RerunFrame::inputs_again(const StoragesThen& storages) const {
  std::vector<at::Tensor> tensors(inputs_.size());
  std::map<const c10::StorageImpl*, c10::Storage> came_back;  // what shared its bytes then shares them now
  std::map<const void*, at::Tensor> bases;
  const auto bytes_of = [&](const Input& input) {
    const c10::StorageImpl* then = input.storage._unsafe_get_target();
    c10::Storage storage = storages.find(then);
    if (const auto found = came_back.find(then); !storage && then != nullptr && found != came_back.end()) {
      storage = found->second;
    }
    at::Tensor source = storage ? input.geometry.over(storage) : input.saved->get();
    if (then != nullptr) {
      came_back.emplace(then, source.storage());
    }
    return source;
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    if (input.same_as == i && input.view.base == nullptr) {
      tensors[i] = stand_in(bytes_of(input), input.requires_grad, input.is_leaf);
      bases.emplace(input.identity, tensors[i]);
    }
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    if (input.same_as == i && input.view.base != nullptr) {
      tensors[i] = input.view.over(bytes_of(input), bases);
    } else if (input.same_as < i) {
      tensors[i] = tensors[input.same_as];
    }
  }
  return tensors;
}

void RerunFrame::rerun() {
  if (!again_) {
    throw ReplayError(who() +
                      ": the function or an argument can't be copied, so it can't be called again; use kReplay");
  }
  const record::Recorder::Aside aside;
  const tape::CleanDispatch dispatch(dispatch_keys_);
  const compat::UnoptimizedScript script;
  tape::WorldGuard world;
  world.enter(world_);
  const ReplayTimer timer;
  const StoragesThen storages(*residency_, first_, last_);
  const CallPath path(tape(), first_, last_);
  const std::vector<at::Tensor> inputs = inputs_again(storages);
  const GradientsThen gradients(gradients_);
  const RandomThen random(tape(), first_, last_, random_);
  const c10::InferenceMode no_inference(false);
  const at::AutoGradMode grad(true);
  const compat::AutocastCpu autocast(autocast_, autocast_dtype_);

  next_slot_ = 0;
  mismatch_ = nullptr;
  missing_ =
      static_cast<size_t>(std::count_if(slots_.begin(), slots_.end(), [](const Slot& s) { return *s.handles > 0; }));
  int64_t num_ops = 0;
  bool stopped = false;
  {
    const auto again = std::make_shared<store::Residency>(options_.name);
    if (tape().every_byte()) {
      again->watch_every_byte();
    }
    const auto recorder = std::make_shared<record::Recorder>(again);
    recorder->push(std::make_shared<RerunRegion>(0, shared_from_this(), /*again=*/true));
    try {
      again_(inputs);
      recorder->rethrow_failure();
    } catch (const Stop&) {
      stopped = true;
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      if (mismatch_) {
        std::rethrow_exception(mismatch_);
      }
      throw ReplayError(who() + ": the function threw when it was called again: " + error.what());
    }
    const tape::OpId end = stopped ? slots_[next_slot_ - 1].at : last_ - first_;
    const std::string difference = path.difference(again->tape(), end, /*compare_reads=*/!autocast_);
    if (!difference.empty()) {
      throw DeterminismError(who() + ": " + difference);
    }
    num_ops = static_cast<int64_t>(again->tape().ops().size());
  }
  if (missing_ > 0) {
    throw DeterminismError(who() + ": saved " + std::to_string(slots_.size()) + " tensors when first called and only " +
                           std::to_string(next_slot_) + " when called again; the function must do the same each time");
  }
  timer.done(label(), num_ops);
}

}  // namespace encore::region
