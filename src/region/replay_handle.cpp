// Keeping one saved tensor, letting go of it, and asking for it again.
#include "region/replay_handle.h"

#include <encore/error.h>

namespace encore::region {

const int64_t ReplayRegion::kHandleBytes = sizeof(ReplayHandle);

ReplayHandle::ReplayHandle(std::shared_ptr<ReplayRegion> region, tape::ValueId value, const at::Tensor& tensor,
                           bool keep)
    : region_(std::move(region)),
      geometry_(region_->tape().geometry_of(tensor)),
      version_(tensor._version()),
      counter_(tensor.unsafeGetTensorImpl()->version_counter()) {
  const tape::Tape& tape = region_->tape();
  const tape::OpInfo& made_by = *tape.op(tape.value(value).producer).info;
  if (region_->check() == DeterminismCheck::kValues && tape.find(tensor) == value && !made_by.is_workspace(tensor)) {
    hash_ = tape::hash_elements(tensor);
  }
  residency().add(*this, *region_, region_->handles_, value, keep ? tensor.storage() : c10::Storage());
  ++region_->num_handles_;
}

void ReplayHandle::leave() {
  residency().remove(*this, region_->handles_);
  --region_->num_handles_;
}

ReplayHandle::~ReplayHandle() {
  const std::lock_guard<RecursiveMutex> lock(region_->tape().mutex());
  if (!anew_) {
    leave();
  }
}

void ReplayHandle::overwritten_unseen(const SaveAnew& save_anew) {
  if (whole_) {
    residency().drop(*this);  // replay needs the bytes that were there
    return;
  }
  const auto storage = region_->tape().storage_of(value()).weak.lock();
  if (!storage || static_cast<int64_t>(counter_.current_version()) != version_) {
    return;  // plain autograd would refuse it: the older version is the better answer
  }
  auto anew = std::static_pointer_cast<record::Saved>(save_anew(over(c10::Storage(storage))));
  leave();
  anew_ = std::move(anew);
}

/// With the version counter of what was saved.
at::Tensor ReplayHandle::over(const c10::Storage& storage) const {
  at::Tensor tensor = geometry_->over(storage);
  tensor.unsafeGetTensorImpl()->set_version_counter(counter_);
  return tensor;
}

bool ReplayHandle::is_kept_as_saved() const {
  return keeps() && !whole_ && static_cast<int64_t>(counter_.current_version()) == version_;
}

/// The tensor over the storage in which it was saved, if that is alive and its version did not move: whatever was
/// written there unseen, plain autograd reads it.
at::Tensor ReplayHandle::as_autograd_has_it() const {
  if (whole_ || static_cast<int64_t>(counter_.current_version()) != version_) {
    return at::Tensor();
  }
  const auto storage = region_->tape().storage_of(value()).weak.lock();
  if (!storage || static_cast<int64_t>(storage->nbytes()) != region_->tape().value(value()).nbytes) {
    return at::Tensor();
  }
  return over(c10::Storage(storage));
}

/// Whether the tensor can be had without replay.
bool ReplayHandle::is_at_hand() const {
  return anew_ || is_kept_as_saved() || as_autograd_has_it().defined() || residency().resident(value());
}

void ReplayHandle::tell_asked() const {
  if (region_->subscriber() != nullptr) {
    region_->subscriber()->asked(value());
  }
}

at::Tensor ReplayHandle::get() {
  tape::RandomLock random;
  std::unique_lock<RecursiveMutex> lock(region_->tape().mutex());
  if (is_kept_as_saved()) {
    tell_asked();
    return over(bytes());
  }
  if (!is_at_hand() && region_->may_draw_again()) {
    // The random lock comes first; what is at hand may be another matter when both are there.
    lock.unlock();
    random = tape::lock_random_ops();
    lock.lock();
  }
  const tape::CleanDispatch clean;
  if (const auto anew = anew_) {
    lock.unlock();
    return anew->get();
  }
  tell_asked();
  if (is_kept_as_saved()) {
    return over(bytes());
  }
  if (at::Tensor tensor = as_autograd_has_it(); tensor.defined()) {
    residency().settle(*this);
    return tensor;
  }
  if (!residency().resident(value())) {
    residency().drop(*this);  // kept, then overwritten: the tape still knows how to make the older version
  }
  at::Tensor tensor = region_->tape().tensor_over(value(), *geometry_, region_->fetch(*this));
  residency().settle(*this);
  verify(tensor);
  return tensor;
}

void ReplayHandle::verify(const at::Tensor& tensor) const {
  if (hash_.has_value() && tape::hash_elements(tensor) != *hash_) {
    const tape::Tape& tape = region_->tape();
    throw DeterminismError("replay: the result " + geometry_->text() + " of " +
                           tape.describe_op(tape.value(value()).producer) +
                           " has other bits than when it was recorded (hash " + std::to_string(*hash_) + ", now " +
                           std::to_string(tape::hash_elements(tensor)) +
                           "); the op is not deterministic, or its arguments were changed behind ATen's back");
  }
}

}  // namespace encore::region
