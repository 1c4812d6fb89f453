// Copies before writes, and the way back.
#include "budget/undo.h"

#include <cstring>

#include "tape/compat.h"

namespace encore::budget {

Undo::Undo(bool everything) : everything_(everything), random_(at::detail::getDefaultCPUGenerator()) {}

void Undo::before_writes(const tape::Tape& tape, const tape::PendingOp& op) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const tape::PendingWrite& write : op.writes) {
    const c10::weak_intrusive_ptr<c10::StorageImpl>& weak = tape.storage(write.storage).weak;
    const c10::Storage storage(weak.lock());
    if (!storage || op.info->metadata_only) {
      continue;
    }
    const tape::Value& before = tape.value(write.before);
    if (!leaves_.empty() && before.producer != tape::kNone && before.base == tape::kNone &&
        tape.ops()[static_cast<size_t>(before.producer)].info->name == "aten::zeros_like") {
      zeros_.push_back(weak);
    }
    if (!before.source) {
      continue;
    }
    const c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
    if (everything_) {
      copy(storage, tape.storage(write.storage).counter);
    }
    if (parameters_.count(impl) > 0) {
      written_bytes_ += parameters_written_.insert(impl).second ? static_cast<int64_t>(storage.nbytes()) : 0;
      continue;
    }
    if (everything_ || !seen_.insert(impl).second) {
      continue;
    }
    const auto nbytes = static_cast<int64_t>(storage.nbytes());
    if (op.info->name == "aten::zero_" && write.geometry->covers(nbytes)) {
      zeroed_.insert(impl);
    }
    if (nbytes > 0 && nbytes <= kMostCopyBytes && copied_bytes_ + nbytes <= kMostCopiedBytes) {
      const auto* bytes = static_cast<const char*>(compat::data_of(storage));
      copies_.push_back(
          {weak, std::vector<char>(bytes, bytes + nbytes), c10::VariableVersion(c10::VariableVersion::DISABLED), 0});
      copied_bytes_ += nbytes;
    }
  }
}

/// Of a rehearsal: the bytes as they are before the first write.
void Undo::copy(const c10::Storage& storage, const c10::VariableVersion& counter) {
  if (!seen_.insert(storage.unsafeGetStorageImpl()).second) {
    return;
  }
  const auto* bytes = static_cast<const char*>(compat::data_of(storage));
  const size_t nbytes = bytes == nullptr ? 0 : storage.nbytes();
  copies_.push_back({storage.getWeakStorageImpl(), std::vector<char>(bytes, bytes + nbytes), counter,
                     counter.enabled() ? counter.current_version() : 0});
  copied_bytes_ += static_cast<int64_t>(nbytes);
}

void Undo::keep_gradient(const at::Tensor& leaf) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const at::Tensor& gradient = leaf.grad();
  if (!gradient.defined() || !tape::is_plain(gradient)) {
    return;
  }
  copy(gradient.storage(), gradient.unsafeGetTensorImpl()->version_counter());
  const auto bytes = std::find_if(copies_.begin(), copies_.end(), [&](const Copy& copy) {
    return copy.storage._unsafe_get_target() == gradient.storage().unsafeGetStorageImpl();
  });
  kept_gradients_.push_back({leaf, c10::weak_intrusive_ptr<c10::TensorImpl>(gradient.getIntrusivePtr()),
                             tape::Geometry::of(gradient), static_cast<size_t>(bytes - copies_.begin())});
}

void Undo::accumulates_into(const at::Tensor& leaf) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!tape::is_plain(leaf) || !known_leaves_.insert(leaf.unsafeGetTensorImpl()).second) {
    return;
  }
  Leaf entry{c10::weak_intrusive_ptr<c10::TensorImpl>(leaf.getIntrusivePtr()), leaf.storage().unsafeGetStorageImpl(),
             nullptr};
  if (const at::Tensor& gradient = leaf.grad(); gradient.defined()) {
    entry.gradient = gradient.unsafeGetTensorImpl();
    entry.version = static_cast<int64_t>(gradient._version());
    if (tape::is_plain(gradient)) {
      const c10::StorageImpl* bytes = gradient.storage().unsafeGetStorageImpl();
      entry.zeroed = zeroed_.count(bytes) > 0;
      everything_ ? copy(gradient.storage(), gradient.unsafeGetTensorImpl()->version_counter()) : forget_copy(bytes);
    }
  }
  const auto nbytes = static_cast<int64_t>(leaf.storage().nbytes());
  parameter_bytes_ += parameters_.insert(entry.storage).second ? nbytes : 0;
  new_gradient_bytes_ += entry.gradient == nullptr ? static_cast<int64_t>(leaf.nbytes()) : 0;
  largest_parameter_bytes_ = std::max(largest_parameter_bytes_, nbytes);
  leaves_.push_back(std::move(entry));
}

/// The bytes of a gradient before it was zeroed are not wanted back.
void Undo::forget_copy(const c10::StorageImpl* storage) {
  const auto copy = std::find_if(copies_.begin(), copies_.end(),
                                 [&](const Copy& c) { return c.storage._unsafe_get_target() == storage; });
  if (copy != copies_.end()) {
    copied_bytes_ -= static_cast<int64_t>(copy->bytes.size());
    copies_.erase(copy);
  }
}

int64_t Undo::parameters_written() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(parameters_written_.size());
}

int64_t Undo::parameter_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return parameter_bytes_;
}

int64_t Undo::new_gradient_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return new_gradient_bytes_;
}

int64_t Undo::largest_parameter_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return largest_parameter_bytes_;
}

int64_t Undo::largest_unwritten_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t largest = 0;
  for (const Leaf& leaf : leaves_) {
    const auto impl = leaf.tensor.lock();
    if (impl && parameters_written_.count(leaf.storage) == 0) {
      largest = std::max(largest, static_cast<int64_t>(impl->storage().nbytes()));
    }
  }
  return largest;
}

std::vector<Undo::LeafBytes> Undo::leaves() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<LeafBytes> found;
  for (const Leaf& leaf : leaves_) {
    if (const auto impl = leaf.tensor.lock()) {
      const at::Tensor& gradient = impl->grad();
      const bool has_bytes = gradient.defined() && tape::is_plain(gradient);
      found.push_back({leaf.storage, has_bytes ? gradient.storage().unsafeGetStorageImpl() : nullptr,
                       static_cast<int64_t>(impl->storage().nbytes())});
    }
  }
  return found;
}

int64_t Undo::written_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return written_bytes_;
}

int64_t Undo::copied_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return copied_bytes_;
}

int64_t Undo::gradients_added_to() const {
  return std::count_if(leaves_.begin(), leaves_.end(), [](const Leaf& leaf) {
    const auto impl = leaf.tensor.lock();
    if (!impl || leaf.gradient == nullptr || leaf.zeroed) {
      return false;
    }
    const at::Tensor& gradient = impl->grad();
    return gradient.unsafeGetTensorImpl() != leaf.gradient || static_cast<int64_t>(gradient._version()) != leaf.version;
  });
}

std::string Undo::text() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (everything_) {
    return "nothing has changed: it was a rehearsal";
  }
  if (!parameters_written_.empty()) {
    return std::to_string(parameters_written_.size()) + " of " + std::to_string(parameters_.size()) +
           " parameters were written by then: the model is between two steps, go on from a saved copy";
  }
  if (const int64_t added = gradients_added_to(); added > 0) {
    return "nothing has changed but the gradients of " + std::to_string(added) +
           " parameters, to which it had begun to add: zero them";
  }
  return "nothing has changed: the same step with a smaller batch may follow";
}

std::vector<at::Tensor> Undo::put_back(const tape::Tape& tape) {
  std::vector<at::Tensor> gone;
  if (put_back_tensors(gone)) {
    put_back_generators(tape);
  }
  return gone;
}

bool Undo::put_back_tensors(std::vector<at::Tensor>& gone) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!parameters_written_.empty() && !everything_) {
    return false;
  }
  for (const Leaf& leaf : leaves_) {
    const auto impl = leaf.tensor.lock();
    if (impl && leaf.gradient == nullptr) {
      gone.push_back(std::exchange(impl->mutable_grad(), at::Tensor()));
    } else if (impl && leaf.zeroed && impl->grad().unsafeGetTensorImpl() == leaf.gradient) {
      const at::NoGradGuard no_grad;
      impl->mutable_grad().zero_();
    }
  }
  for (const auto& weak : zeros_) {
    if (const c10::Storage storage(weak.lock()); storage) {
      std::memset(compat::data_of(storage), 0, storage.nbytes());
    }
  }
  for (const Copy& copy : copies_) {
    const c10::Storage storage(copy.storage.lock());
    if (storage && storage.nbytes() == copy.bytes.size()) {
      std::memcpy(compat::data_of(storage), copy.bytes.data(), copy.bytes.size());
      if (c10::VariableVersion counter = copy.counter; counter.enabled()) {
        compat::set_version(counter, copy.version);  // the same counter: graphs that saved it find it unchanged
      }
    }
  }
  put_back_kept_gradients(gone);
  return true;
}

void Undo::put_back_kept_gradients(std::vector<at::Tensor>& gone) {
  for (Kept& kept : kept_gradients_) {
    at::Tensor& now = kept.leaf.mutable_grad();
    if (now.defined() && now.unsafeGetTensorImpl() == kept.gradient._unsafe_get_target()) {
      continue;
    }
    gone.push_back(std::exchange(now, at::Tensor()));
    if (auto before = kept.gradient.lock()) {
      now = at::Tensor(std::move(before));
      continue;
    }
    const std::vector<char>& bytes = copies_[kept.copy].bytes;
    const c10::Storage anew = tape::new_storage(static_cast<int64_t>(bytes.size()));
    if (!bytes.empty()) {
      std::memcpy(compat::data_of(anew), bytes.data(), bytes.size());
    }
    now = kept.geometry.over(anew);
  }
}

/// Without the mutex: an allocation under a generator's own lock may be refused, and asks for text().
void Undo::put_back_generators(const tape::Tape& tape) const {
  tape.restore_generators(random_);
}

}  // namespace encore::budget
