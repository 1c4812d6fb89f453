// Calling a function again, in the state it was first called in.
#include "checkpoint/rerun_region.h"

#include <ATen/core/grad_mode.h>

#include <encore/error.h>

#include "record/backward.h"
#include "tape/compat.h"

namespace encore {
namespace {

/// Unwinds the function once all is there. Not a std::exception: user code that catches those lets it pass.
struct StopRerun {};

}  // namespace

class RerunFrame::SlotHandle final : public record::Saved {
 public:
  SlotHandle(std::shared_ptr<RerunFrame> frame, size_t slot) : frame_(std::move(frame)), slot_(slot) {
    ++frame_->slots_[slot_].handles;
    frame_->residency_->count_dropped(1);
  }
  ~SlotHandle() override {
    {
      const std::lock_guard<RecursiveMutex> tape_lock(frame_->tape().mutex());
      frame_->residency_->count_dropped(-1);
    }
    const std::lock_guard<RecursiveMutex> lock(frame_->mutex_);
    Slot& slot = frame_->slots_[slot_];
    if (--slot.handles == 0) {
      slot.first.reset();
      slot.again.reset();
    }
  }
  SlotHandle(const SlotHandle&) = delete;
  SlotHandle& operator=(const SlotHandle&) = delete;
  at::Tensor get() override { return frame_->get(slot_); }

 private:
  std::shared_ptr<RerunFrame> frame_;
  size_t slot_;
};

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

void RerunRegion::accumulates_into(const at::Tensor& leaf) {
  if (!again_) {
    frame_->note_gradient(leaf);
  }
}

void RerunRegion::overwritten(tape::ValueId before, tape::ValueId, const tape::Geometry&, bool has_history) {
  if (!again_ && has_history) {
    frame_->note_rewritten(before);
  }
}

void RerunRegion::overwrote_unseen() {
  if (!again_) {
    frame_->run_whole();
  }
}

void RerunRegion::closed() {
  if (!again_ && run::anyone_listens()) {
    run::tell_region_closed(frame_);
  }
}

run::RegionFigures RerunFrame::figures() const {
  const std::lock_guard<RecursiveMutex> lock(mutex_);
  run::RegionFigures figures;
  std::map<const c10::StorageImpl*, size_t> seen;  // storages held weakly keep their address
  for (const Slot& slot : slots_) {
    const c10::StorageImpl* storage = slot.storage._unsafe_get_target();
    if (slot.handles > 0 && storage != nullptr && seen.emplace(storage, seen.size()).second) {
      figures.dropped.push_back({weak_from_this(), static_cast<int64_t>(seen.size()), slot.nbytes,
                                 slot.storage.expired(), false, slot.made_by});
    }
  }
  return figures;
}

RerunFrame::RerunFrame(CheckpointOptions options, const std::vector<at::Tensor>& inputs,
                       detail::CheckpointCall::Again again)
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
      last_ == 0 || std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.handles > 0; });
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

std::shared_ptr<record::Saved> RerunFrame::add_slot(const at::Tensor& tensor, const tape::OpInfo* op) {
  // In this order, as in get().
  const std::lock_guard<RecursiveMutex> lock(mutex_);
  const std::lock_guard<RecursiveMutex> tape_lock(tape().mutex());
  Slot slot;
  slot.op = op;
  slot.at = static_cast<tape::OpId>(tape().ops().size()) - first_;
  slot.geometry = tape::is_plain(tensor) ? tape::Geometry::of(tensor) : tape::Geometry();
  // What was there before the call is held as it would be without it, or as its own region decides.
  const tape::ValueId value = tape().find(tensor);
  const tape::OpId producer = value == tape::kNone ? tape::kNone : tape().value(value).producer;
  slot.made_by = producer != tape::kNone ? tape().describe_op(producer) : op != nullptr ? op->name : "an op";
  if (value != tape::kNone && producer < first_) {
    slots_.push_back(std::move(slot));
    record::Recorder* recorder = record::Recorder::current();
    auto saved = recorder->save_for_region(tensor, /*as_it_is=*/false);
    record::AsSaved then = record::as_saved(tensor, record::version_of(tensor), tape());
    if (op != nullptr && !op->state_writes.empty()) {
      then.fingerprint.reset();  // saved by the op that is about to update it
    }
    return saved ? saved : record::keep_plainly(tensor, std::move(then));
  }
  // Some ops save a buffer first and fill it later.
  const bool filled = value == tape::kNone || !tape().value(value).uninitialised;
  const bool workspace = op != nullptr && op->is_workspace(tensor);
  if (options_.determinism_check == DeterminismCheck::kValues && tape::is_plain(tensor) && filled && !workspace) {
    slot.hash = tape::hash_elements(tensor);
  }
  if (!tensor.is_inference()) {
    slot.counter = tensor.unsafeGetTensorImpl()->version_counter();
    slot.version_saved = slot.version_now();
  }
  slot.first = record::keep_plainly(tensor, {record::version_of(tensor), name_, {}});
  if (tape::is_plain(tensor)) {
    slot.storage = tensor.storage().getWeakStorageImpl();
    slot.nbytes = static_cast<int64_t>(tensor.storage().nbytes());
  }
  slots_.push_back(std::move(slot));
  return std::make_shared<SlotHandle>(shared_from_this(), slots_.size() - 1);
}

void RerunFrame::check_slot(const Slot& slot, const at::Tensor& tensor, const tape::OpInfo* op) const {
  const auto saved_for = [](const tape::OpInfo* info) { return info == nullptr ? std::string("no op") : info->name; };
  const tape::Geometry now = tape::is_plain(tensor) ? tape::Geometry::of(tensor) : tape::Geometry();
  // Another op here means that the function took another path: whatever it saves next would go to the wrong place.
  const bool same_shape = options_.determinism_check == DeterminismCheck::kNone || now == slot.geometry;
  if (op != slot.op || !same_shape) {
    throw DeterminismError(who() + ": " + slot.made_by + " gave " + slot.geometry.text() + ", saved for " +
                           saved_for(slot.op) + ", when the function was first called; when it was called again " +
                           now.text() + " was saved there for " + saved_for(op) +
                           ". The function must do the same each time");
  }
  if (slot.hash.has_value() && tape::is_plain(tensor) && tape::hash_elements(tensor) != *slot.hash) {
    throw DeterminismError(who() + ": the result " + now.text() + " of " + slot.made_by +
                           " has other bits than when the function was first called (hash " +
                           std::to_string(*slot.hash) + ", now " + std::to_string(tape::hash_elements(tensor)) + ")");
  }
}

void RerunFrame::fill_next_slot(const at::Tensor& tensor, const tape::OpInfo* op) {
  if (next_slot_ >= slots_.size()) {
    if (options_.early_stop && missing_ == 0) {
      if (may_stop(op)) {
        throw StopRerun();
      }
      return;
    }
    throw DeterminismError(who() + ": saved " + std::to_string(slots_.size()) +
                           " tensors when first called and more when called again");
  }
  Slot& slot = slots_[next_slot_++];
  check_slot(slot, tensor, op);
  if (slot.handles > 0) {
    slot.again = record::keep_plainly(tensor, {record::version_of(tensor), name_, {}});
    slot.version = slot.version_now();
    --missing_;
  }
  // An op may save a buffer that it is about to fill: then it must run first.
  const bool fills_buffers = op != nullptr && (!op->writes.empty() || !op->state_writes.empty());
  if (options_.early_stop && missing_ == 0 && !fills_buffers && may_stop(op)) {
    throw StopRerun();
  }
}

/// Not in the middle of a custom function, which would leave it half done, and not out of a destructor.
bool RerunFrame::may_stop(const tape::OpInfo* op) const {
  return op != nullptr && std::uncaught_exceptions() == 0;
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

void RerunFrame::let_go() {
  const std::lock_guard<RecursiveMutex> lock(mutex_);
  for (Slot& slot : slots_) {
    slot.again.reset();
  }
}

/// See ReplayHandle.
at::Tensor RerunFrame::as_autograd_has_it(const Slot& slot) {
  const auto storage = slot.storage.lock();
  if (!storage || static_cast<int64_t>(storage->nbytes()) != slot.nbytes || !slot.counter.enabled() ||
      slot.version_now() != slot.version_saved) {
    return at::Tensor();
  }
  at::Tensor tensor = slot.geometry.over(c10::Storage(storage));
  tensor.unsafeGetTensorImpl()->set_version_counter(slot.counter);
  return tensor;
}

at::Tensor RerunFrame::get(size_t index) {
  const std::lock_guard<RecursiveMutex> lock(mutex_);
  if (slots_[index].first) {
    return slots_[index].first->get();
  }
  if (at::Tensor tensor = as_autograd_has_it(slots_[index]); tensor.defined()) {
    slots_[index].again.reset();
    return tensor;
  }
  if (!slots_[index].again) {
    try {
      rerun();
    } catch (...) {
      let_go();  // of a call that was not the same
      throw;
    }
    record::release_after_backward([weak = weak_from_this()] {
      if (const auto frame = weak.lock()) {
        frame->let_go();
      }
    });
  }
  const Slot& slot = slots_[index];
  if (slot.version != slot.version_now()) {
    throw ChangedError(who() + ": a backward function changed " + slot.geometry.text() + ", the result of " +
                       slot.made_by + ", in place; another backward function needs it as it was. Change a clone");
  }
  // The graph may be kept for another backward; the value is not.
  return std::exchange(slots_[index].again, nullptr)->get();
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
  run::ReplayTimer timer;
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
      static_cast<size_t>(std::count_if(slots_.begin(), slots_.end(), [](const Slot& s) { return s.handles > 0; }));
  int64_t num_ops = 0;
  bool stopped = false;
  {
    const auto again = std::make_shared<store::Residency>(options_.name);
    if (tape().every_byte()) {
      again->tape_to_write().watch_every_byte();
    }
    const auto recorder = std::make_shared<record::Recorder>(again);
    recorder->push(std::make_shared<RerunRegion>(0, shared_from_this(), /*again=*/true));
    try {
      again_(inputs);
      recorder->rethrow_failure();
    } catch (const StopRerun&) {
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

}  // namespace encore
