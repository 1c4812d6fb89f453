// What a function saves, tensor by tensor: a slot for each when it is first called, filled when it is called again.
#include "region/rerun_region.h"

#include <encore/error.h>

#include "record/backward.h"

namespace encore::region {

class RerunFrame::SlotHandle final : public record::Saved {
 public:
  SlotHandle(std::shared_ptr<RerunFrame> frame, size_t slot) : frame_(std::move(frame)), slot_(slot) {
    ++*frame_->slots_[slot_].handles;
    frame_->residency_->count_dropped(1);
  }
  ~SlotHandle() override {
    {
      const std::lock_guard<RecursiveMutex> tape_lock(frame_->tape().mutex());
      frame_->residency_->count_dropped(-1);
    }
    const std::lock_guard<RecursiveMutex> lock(frame_->mutex_);
    Slot& slot = frame_->slots_[slot_];
    if (--*slot.handles == 0) {
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
  if (options_.check == DeterminismCheck::kValues && tape::is_plain(tensor) && filled && !workspace) {
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
  const bool same_shape = options_.check == DeterminismCheck::kNone || now == slot.geometry;
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
        throw Stop();
      }
      return;
    }
    throw DeterminismError(who() + ": saved " + std::to_string(slots_.size()) +
                           " tensors when first called and more when called again");
  }
  Slot& slot = slots_[next_slot_++];
  check_slot(slot, tensor, op);
  if (*slot.handles > 0) {
    slot.again = record::keep_plainly(tensor, {record::version_of(tensor), name_, {}});
    slot.version = slot.version_now();
    --missing_;
  }
  // An op may save a buffer that it is about to fill: then it must run first.
  const bool fills_buffers = op != nullptr && (!op->writes.empty() || !op->state_writes.empty());
  if (options_.early_stop && missing_ == 0 && !fills_buffers && may_stop(op)) {
    throw Stop();
  }
}

/// Not in the middle of a custom function, which would leave it half done, and not out of a destructor.
bool RerunFrame::may_stop(const tape::OpInfo* op) const {
  return op != nullptr && std::uncaught_exceptions() == 0;
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

}  // namespace encore::region
