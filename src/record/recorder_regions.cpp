// What the recorder tells its regions, and asks them.
#include "record/recorder.h"
#include "record/thread.h"
#include "tape/compat.h"

namespace encore::record {

void Recorder::push(std::shared_ptr<Region> region) {
  region->set_hooks_depth(compat::user_hooks().depth);
  regions_.push_back(std::move(region));
  regions_changed();
  regions_.back()->opened();
}

void Recorder::pop() {
  const std::shared_ptr<Region> region = std::move(regions_.back());
  regions_.pop_back();
  regions_changed();
  region->closed();
}

void Recorder::regions_changed() {
  subscribers_.clear();
  called_again_ = nullptr;
  for (const auto& region : regions_) {
    subscribers_.push_back(region.get());
    if (region->subscriber() != nullptr) {
      subscribers_.push_back(region->subscriber());
    }
    if (called_again_ == nullptr && region->is_opaque()) {
      called_again_ = region.get();
    }
  }
  observe_nodes(std::any_of(subscribers_.begin(), subscribers_.end(), [](const auto* s) { return s->wants_nodes(); }));
}

bool Recorder::wants_leaves() const {
  return std::any_of(subscribers_.begin(), subscribers_.end(), [](const auto* s) { return s->wants_leaves(); });
}

/// A value read across a region's border is something the region in which it was made is asked to save.
void Recorder::enter_regions(const tape::PendingOp& pending, c10::ArrayRef<const c10::IValue> args) {
  for (const tape::TensorArg& arg : pending.tensors) {
    if (!(arg.read || arg.updated) || residency_->is_constant(arg.value)) {
      continue;
    }
    const tape::OpId producer = tape_.value(arg.value).producer;
    std::shared_ptr<Saved> saved;
    for (auto region = regions_.rbegin(); region != regions_.rend() && producer < (*region)->first(); ++region) {
      if ((*region)->has_entered(arg.value)) {
        continue;
      }
      if (!saved) {
        const c10::IValue* boxed = &args[arg.arg];
        if (arg.index != tape::kNone) {
          boxed = &boxed->toListRef()[static_cast<size_t>(arg.index)];
        }
        const at::Tensor& tensor = boxed->toTensor();
        saved = save_value(arg.value, tensor, version_of(tensor));
        saved->needs_whole_storage();
      }
      (*region)->enter(arg.value, saved);
    }
  }
}

void Recorder::tell_overwritten(tape::OpId id, c10::ArrayRef<tape::PendingWrite> writes,
                                c10::ArrayRef<const c10::IValue> outputs) {
  for (const tape::Write& write : tape_.ops()[static_cast<size_t>(id)].writes) {
    const auto pending =
        std::find_if(writes.begin(), writes.end(), [&](const auto& other) { return other.before == write.before; });
    const c10::StorageImpl* storage = tape_.storage(pending->storage).weak._unsafe_get_target();
    const bool has_history = std::any_of(outputs.begin(), outputs.end(), [&](const c10::IValue& output) {
      return output.isTensor() && tape::is_plain(output.toTensor()) && output.toTensor().requires_grad() &&
             output.toTensor().storage().unsafeGetStorageImpl() == storage;
    });
    if (write.unseen && !write.state && !tape_.value(write.before).source) {
      tell_overwritten_unseen(write.before);
    }
    tell(&Subscriber::overwritten, write.before, write.after, *pending->geometry, has_history);
  }
}

/// Tensors over the storage with a version counter that did not move: autograd reads them as they are when backward
/// runs, so from here on they are saved as what was made of them.
void Recorder::tell_overwritten_unseen(tape::ValueId before) {
  const auto save_anew = [&](const at::Tensor& tensor) {
    return save_value(tape_.find(tensor), tensor, version_of(tensor));
  };
  for (store::Holding* holding : residency_->holdings_of(before)) {  // they take themselves off
    holding->overwritten_unseen(save_anew);
  }
  tell(&Subscriber::overwritten_unseen);
}

std::shared_ptr<Saved> Recorder::save_value(tape::ValueId value, const at::Tensor& tensor, int64_t version) {
  if (value != tape::kNone && !residency_->is_constant(value)) {
    writer_.watch(value, tensor);
    const tape::OpId producer = tape_.value(value).producer;
    for (auto region = regions_.rbegin(); region != regions_.rend(); ++region) {
      if (producer >= (*region)->first()) {
        return (*region)->save(value, tensor);
      }
    }
  }
  return keep_constant(value, tensor, version);
}

/// A weight is saved by each op that reads it, mostly as it was saved before. The value stands for its bytes: where
/// they were changed unseen, reading them has made another one.
std::shared_ptr<Saved> Recorder::keep_constant(tape::ValueId value, const at::Tensor& tensor, int64_t version) {
  if (value == tape::kNone || tape_.every_byte() || tensor.has_names()) {
    return keep_plainly(tensor, as_saved(tensor, version, tape_));
  }
  const tape::Geometry* geometry = tape_.geometry_of(tensor);
  const void* counter = compat::identity_of(tensor.unsafeGetTensorImpl()->version_counter());
  KeptConstant& last = kept_constants_[value];
  std::shared_ptr<Saved> saved = last.saved.lock();
  if (!saved || last.geometry != geometry || last.counter != counter || last.version != version) {
    saved = keep_plainly(tensor, as_saved(tensor, version, tape_));
    last = {geometry, counter, version, saved};
  }
  return saved;
}

}  // namespace encore::record
