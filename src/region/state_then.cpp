// Putting the state of a function's first call back, and what is there now afterwards.
#include "region/state_then.h"

#include <cstring>

#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/variable.h>

#include "tape/compat.h"

namespace encore::region {
namespace {

void put_back(const c10::Storage& storage, const c10::Storage& then) {
  const size_t nbytes = std::min(storage.nbytes(), then.nbytes());
  if (nbytes > 0) {
    std::memcpy(compat::data_of(storage), compat::data_of(then), nbytes);
  }
}

}  // namespace

StoragesThen::StoragesThen(const store::Residency& residency, tape::OpId first, tape::OpId last)
    : residency_(residency), tape_(residency.tape()) {
  const std::lock_guard<RecursiveMutex> lock(tape_.mutex());
  try {
    for (tape::OpId id = first; id < last; ++id) {
      const tape::Op& op = tape_.op(id);
      for (const tape::TensorArg& arg : op.tensors) {
        if (arg.read && tape_.value(arg.value).source) {
          use(arg.value, first);
        }
      }
      for (const tape::Write& write : op.writes) {
        use(write.before, first);
      }
      for (const tape::Output& output : op.outputs) {
        if (output.value != tape::kNone && tape_.value(output.value).producer >= first) {
          seen_.insert(tape_.value(output.value).storage);  // the call makes it anew, whoever else writes to it
        }
      }
    }
  } catch (...) {
    swap_back();
    throw;
  }
}

c10::Storage StoragesThen::find(const c10::StorageImpl* storage) const {
  for (const Swap& swap : swaps_) {
    if (swap.storage == storage) {
      return swap.live;
    }
  }
  return c10::Storage();
}

void StoragesThen::use(tape::ValueId id, tape::OpId first) {
  const tape::Value& value = tape_.value(id);
  if (value.producer >= first || !seen_.insert(value.storage).second) {
    return;
  }
  if (value.source) {
    residency_.resident(id);  // throws if it changed
  }
  const c10::Storage then = residency_.copy_of(id);
  if (!then) {
    return;
  }
  const tape::StorageRecord& record = tape_.storage(value.storage);
  const c10::StorageImpl* storage = record.weak._unsafe_get_target();
  const auto locked = record.weak.lock();
  if (!locked || locked->nbytes() != then.nbytes()) {
    // Nobody else has it any more: the call gets bytes of its own.
    swaps_.push_back({value.storage, storage, tape::copy_storage(then), c10::Storage(), 0});
    return;
  }
  const c10::Storage live(locked);
  swaps_.push_back({value.storage, storage, live, tape::copy_storage(live),
                    record.counter.enabled() ? record.counter.current_version() : 0});
  std::memcpy(compat::data_of(live), compat::data_of(then), then.nbytes());
}

void StoragesThen::swap_back() {
  const std::lock_guard<RecursiveMutex> lock(tape_.mutex());
  for (const Swap& swap : swaps_) {
    if (!swap.now) {
      continue;
    }
    std::memcpy(compat::data_of(swap.live), compat::data_of(swap.now), swap.now.nbytes());
    c10::VariableVersion counter = tape_.storage(swap.index).counter;  // the same counter, not a copy
    if (counter.enabled()) {
      compat::set_version(counter, swap.version);  // whoever has saved it since finds it unchanged
    }
  }
  swaps_.clear();
}

GradientsThen::GradientsThen(const Gradients& gradients) : gradients_(gradients) {
  for (const auto& [leaf, then] : gradients_) {
    now_.push_back(leaf.grad());
    leaf.mutable_grad() = then.defined() ? then.clone() : at::Tensor();
  }
}

GradientsThen::~GradientsThen() {
  for (size_t i = 0; i < now_.size(); ++i) {
    gradients_[i].first.mutable_grad() = now_[i];
  }
}

RandomThen::RandomThen(const tape::Tape& tape, tape::OpId first, tape::OpId last, const tape::RandomState& start) {
  then_.enter(start);
  const std::lock_guard<RecursiveMutex> lock(tape.mutex());
  for (const tape::RandomState* state : tape.generators_before(first, last)) {
    if (!then_.knows(state->generator())) {
      then_.enter(*state);
    }
  }
}

UndoneCall::UndoneCall(const std::vector<at::Tensor>& buffers)
    : outer_(record::Recorder::current() == nullptr ? nullptr : record::Recorder::current()->residency()),
      residency_(std::make_shared<store::Residency>("rehearsal")),
      recorder_(std::make_shared<record::Recorder>(residency_)),
      random_(at::detail::getDefaultCPUGenerator()) {
  residency_->copy_overwritten_sources();
  if (outer_) {
    const tape::Tape& tape = outer_->tape();
    const std::lock_guard<RecursiveMutex> lock(tape.mutex());
    for (int32_t i = 0; i < tape.num_storages(); ++i) {
      if (tape.storage(i).changed_unseen()) {
        changed_.insert(i);
      }
    }
  }
  for (const at::Tensor& buffer : buffers) {
    if (tape::is_plain(buffer)) {
      buffers_.emplace_back(buffer.storage(), tape::copy_storage(buffer.storage()));
    }
  }
}

UndoneCall::~UndoneCall() {
  recorder_->uninstall();
  const tape::Tape& tape = residency_->tape();
  const std::lock_guard<RecursiveMutex> lock(tape.mutex());
  std::set<const c10::StorageImpl*> storages;
  // Last to first: the oldest state of each storage is what remains.
  for (auto id = static_cast<tape::ValueId>(tape.num_values()); id-- > 0;) {
    const tape::StorageRecord& record = tape.storage_of(id);
    const auto storage = record.weak.lock();
    const c10::Storage then = residency_->copy_of(id);
    if (then && tape.value(id).producer == tape::kNone && record.current != id && storage) {
      put_back(c10::Storage(storage), then);
      storages.insert(storage.get());
    }
  }
  tape.restore_generators(random_);
  for (const auto& [storage, then] : buffers_) {
    put_back(storage, then);
  }
  if (outer_) {
    tell_outer(storages);
  }
}

/// Their versions have moved and their bytes have not: to the outer tape nothing was changed.
void UndoneCall::tell_outer(const std::set<const c10::StorageImpl*>& put_back) {
  const tape::Tape& tape = outer_->tape();
  const std::lock_guard<RecursiveMutex> lock(tape.mutex());
  for (int32_t i = 0; i < tape.num_storages(); ++i) {
    const tape::StorageRecord& record = tape.storage(i);
    if (record.changed_unseen() && changed_.count(i) == 0 && put_back.count(record.weak._unsafe_get_target()) > 0) {
      outer_->put_back(i);
    }
  }
}

int64_t UndoneCall::copied_bytes() const {
  const std::lock_guard<RecursiveMutex> lock(residency_->tape().mutex());
  return residency_->copied_bytes();
}

at::Tensor stand_in(const at::Tensor& tensor, bool requires_grad, bool is_leaf) {
  at::Tensor bytes(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
  if (!requires_grad || is_leaf) {
    bytes.set_requires_grad(requires_grad);
    return bytes;
  }
  const auto node = compat::make_node<torch::autograd::Error>(
      "encore: a graph that is only there to save tensors was differentiated", torch::autograd::edge_list());
  const uint32_t place = node->add_input_metadata(bytes);
  return torch::autograd::make_variable(bytes, torch::autograd::Edge(node, place));
}

std::vector<ViewThen> ViewThen::of(const std::vector<at::Tensor>& arguments) {
  std::vector<ViewThen> views(arguments.size());
  const auto base_of = [](const at::Tensor& tensor) {
    return tape::is_plain(tensor) && !tensor.is_inference() && tensor.is_view() ? tensor._base() : at::Tensor();
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const at::Tensor& view = arguments[i];
    const at::Tensor base = base_of(view);
    // Reinterpreted bytes, or a view without a history of its own, can't be made again by their place alone.
    if (!base.defined() || !tape::is_plain(base) || base.scalar_type() != view.scalar_type() ||
        base.is_conj() != view.is_conj() || base.is_neg() != view.is_neg() ||
        base.requires_grad() != view.requires_grad()) {
      continue;
    }
    const bool matters = std::any_of(arguments.begin(), arguments.end(), [&](const at::Tensor& other) {
      return other.is_same(base) || (!other.is_same(view) && base_of(other).is_same(base));
    });
    if (matters) {
      views[i] = {base.unsafeGetTensorImpl(), tape::Geometry::of(base), base.requires_grad(), base.is_leaf()};
    }
  }
  return views;
}

at::Tensor ViewThen::over(const at::Tensor& view, std::map<const void*, at::Tensor>& bases) const {
  at::Tensor& tensor = bases[base];
  if (!tensor.defined()) {
    tensor = stand_in(geometry.over(view.storage()), requires_grad, is_leaf);
  }
  const at::AutoGradMode grad(true);
  return tensor.as_strided(view.sizes(), view.strides(), view.storage_offset());
}

}  // namespace encore::region
