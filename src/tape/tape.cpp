// The tape itself: what it consists of, and how it is found again.
#include "tape/tape.h"

#include "tape/compat.h"

namespace encore::tape {

int64_t StorageRecord::version_now() const {
  return counter.enabled() ? static_cast<int64_t>(counter.current_version()) : 0;
}

void StorageRecord::watch(const at::Tensor& tensor) {
  const c10::VariableVersion& other = tensor.unsafeGetTensorImpl()->version_counter();
  if (!counter.enabled()) {
    counter = other;
    version = version_now();
  } else if (compat::identity_of(counter) != compat::identity_of(other)) {
    several_counters = true;
  }
}

bool StorageRecord::changed_unseen() const {
  return counter.enabled() && version_now() != version;
}

Tape::Tape(std::string name) : name_(std::make_shared<const std::string>(std::move(name))) {}
Tape::~Tape() {
  for (const Op& op : ops_) {
    for (const c10::IValue& arg : op.args) {
      arg.~IValue();  // the arena does not
    }
  }
}

void PendingOp::clear() {
  args.clear();
  tensors.clear();
  lists.clear();
  writes.clear();
  written_before.clear();
  random.reset();
}

ValueId Tape::add_value(Value value) {
  value.born = static_cast<OpId>(ops_.size());
  values_.push_back(std::move(value));
  return static_cast<ValueId>(values_.size() - 1);
}

/// What a factory made is not watched at once: torch::rand and its kin give its version counter up if somebody else
/// holds it.
ValueId Tape::add_storage(const at::Tensor& tensor, Value value, bool watched) {
  const auto index = static_cast<int32_t>(storages_.size());
  value.storage = index;
  value.nbytes = static_cast<int64_t>(tensor.storage().nbytes());
  const ValueId id = add_value(std::move(value));
  StorageRecord record{tensor.storage().getWeakStorageImpl()};
  record.current = id;
  if (watched) {
    record.watch(tensor);
  }
  storages_.push_back(std::move(record));
  by_storage_.emplace(tensor.storage().unsafeGetStorageImpl(), index);
  return id;
}

int32_t Tape::find_storage(const c10::StorageImpl* storage) const {
  const auto hit = by_storage_.find(storage);
  return hit == by_storage_.end() ? kNone : hit->second;
}

ValueId Tape::find(const at::Tensor& tensor) const {
  const int32_t index = is_plain(tensor) ? find_storage(tensor.storage().unsafeGetStorageImpl()) : kNone;
  return index == kNone || storage(index).changed_unseen() ? kNone : storage(index).current;
}

std::vector<const RandomState*> Tape::generators_before(OpId first, OpId last) const {
  std::vector<const RandomState*> states;
  for (OpId id = first; id < last; ++id) {
    const RandomState* drawn = op(id).random.get();
    if (drawn != nullptr && std::none_of(states.begin(), states.end(), [&](const RandomState* state) {
          return state->generator() == drawn->generator();
        })) {
      states.push_back(drawn);
    }
  }
  return states;
}

void Tape::restore_generators(const RandomState& start) const {
  for (const RandomState* state : generators_before(0, static_cast<OpId>(ops_.size()))) {
    state->restore();
  }
  start.restore();
}

int32_t Tape::note_world() {
  const World now = World::now();
  if (worlds_.empty() || worlds_.back() != now) {
    worlds_.push_back(now);
  }
  return static_cast<int32_t>(worlds_.size() - 1);
}

OpId Tape::add_op(PendingOp& pending) {
  Op& op = ops_.emplace_back();
  op.info = pending.info;
  op.args = arena_.keep(pending.args);
  op.tensors = arena_.keep(pending.tensors);
  op.lists = arena_.keep(pending.lists);
  op.random = std::move(pending.random);
  op.start_ns = pending.start_ns;
  op.duration_ns = pending.duration_ns;
  op.world = pending.world;
  op.opaque = pending.opaque;
  op.grad_mode = pending.grad_mode;
  has_drawn_ = has_drawn_ || op.random != nullptr;
  return static_cast<OpId>(ops_.size() - 1);
}

at::Tensor Tape::tensor_over(ValueId id, const Geometry& geometry, const c10::Storage& storage) const {
  at::Tensor tensor = geometry.over(storage);
  const StorageRecord& record = storage_of(id);
  if (record.counter.enabled()) {
    tensor.unsafeGetTensorImpl()->set_version_counter(record.counter);
  }
  return tensor;
}

int64_t Tape::book_bytes() const {
  return static_cast<int64_t>(arena_.nbytes() + geometries_.nbytes() + ops_.size() * sizeof(Op) +
                              values_.size() * sizeof(Value) + storages_.size() * sizeof(StorageRecord) +
                              by_storage_.bucket_count() * (sizeof(void*) + 2 * sizeof(int32_t) + sizeof(void*)));
}

}  // namespace encore::tape
