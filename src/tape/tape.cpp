// Recording: from boxed calls to ops and values.
#include "tape/tape.h"

#include <xxhash.h>

#include <encore/error.h>

#include "tape/compat.h"

namespace encore::tape {
namespace {

uint64_t hash_bytes(const c10::Storage& storage) {
  return XXH3_64bits(compat::data_of(storage), storage.nbytes());
}

bool contains(const std::vector<size_t>& list, size_t item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

/// Objects with state of their own, streams and the like: the same argument may not mean the same thing later.
bool can_be_passed_again(const c10::IValue& value) {
  return !(value.isObject() || value.isCapsule() || value.isPyObject() || value.isStorage() || value.isStream() ||
           value.isFuture() || value.isRRef());
}

/// Tensors in dictionaries, tuples and lists of lists are not looked for: an op that takes them is not run again.
bool hides_tensors(const c10::IValue& value) {
  const auto hidden = [](const c10::IValue& inner) { return inner.isTensor() || hides_tensors(inner); };
  if (value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    return std::any_of(elements.begin(), elements.end(), hidden);
  }
  if (value.isGenericDict()) {
    const auto dict = value.toGenericDict();
    return std::any_of(dict.begin(), dict.end(), [&](const auto& entry) { return hidden(entry.value()); });
  }
  if (value.isList() && !value.isTensorList() && !value.isOptionalTensorList()) {
    const auto elements = value.toListRef();
    return std::any_of(elements.begin(), elements.end(), hidden);
  }
  return false;
}

/// Memory that the tensor's storage does not own (from_blob without a deleter) may be gone or hold other bytes later.
bool is_borrowed(const c10::Storage& storage) {
  return storage.nbytes() > 0 && storage.data_ptr().get_context() == nullptr;
}

/// Script code may go on to change a list that it passed; a list made for this call is ours alone.
c10::IValue own_argument(const c10::IValue& value) {
  const bool shared_list = value.isList() && value.use_count() > 1;
  return shared_list ? value.deepcopy() : value;
}

template <class Visit>
void for_each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor(), kNone);
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    int32_t index = 0;
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) {
        visit(element.toTensor(), index);
      }
      ++index;
    }
  }
}

/// Whether an op that writes to the tensor here moves the record's counter.
bool bumps_counter_of(const StorageRecord& record, const at::Tensor& tensor) {
  return !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView) &&
         compat::identity_of(record.counter) == compat::identity_of(tensor.unsafeGetTensorImpl()->version_counter());
}

bool is_training(const OpInfo& info, c10::ArrayRef<const c10::IValue> args) {
  return !info.training_arg.has_value() || args[*info.training_arg].toBool();
}

}  // namespace

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
  living_.push_back(index);
  by_storage_.emplace(tensor.storage().unsafeGetStorageImpl(), index);
  return id;
}

ValueId Tape::find(const at::Tensor& tensor) const {
  if (!is_plain(tensor)) {
    return kNone;
  }
  const auto hit = by_storage_.find(tensor.storage().unsafeGetStorageImpl());
  if (hit == by_storage_.end()) {
    return kNone;
  }
  const StorageRecord& record = storages_[static_cast<size_t>(hit->second)];
  return record.changed_unseen() ? kNone : record.current;
}

/// The tensor's value, known from here on: what no recorded op made, or was changed unseen, comes from outside.
ValueId Tape::touch(const at::Tensor& tensor) {
  const auto hit = by_storage_.find(tensor.storage().unsafeGetStorageImpl());
  if (hit == by_storage_.end()) {
    Value outside;
    outside.source = true;
    return add_storage(tensor, std::move(outside), /*watched=*/true);
  }
  StorageRecord& record = storages_[static_cast<size_t>(hit->second)];
  record.watch(tensor);
  return record.changed_unseen() ? add_changed_source(hit->second, tensor) : record.current;
}

ValueId Tape::add_changed_source(int32_t storage, const at::Tensor& tensor) {
  StorageRecord& record = storages_[static_cast<size_t>(storage)];
  Value outside;
  outside.source = true;
  outside.storage = storage;
  outside.nbytes = static_cast<int64_t>(tensor.storage().nbytes());
  record.version = record.version_now();
  if (Value& before = value(record.current); !before.copied) {
    before.strong = c10::Storage();  // would be refused
  }
  return record.current = add_value(std::move(outside));
}

int32_t Tape::note_world() {
  const World now = World::now();
  if (worlds_.empty() || worlds_.back() != now) {
    worlds_.push_back(now);
  }
  return static_cast<int32_t>(worlds_.size() - 1);
}

ValueId Tape::read(const at::Tensor& tensor, bool keep_constants) {
  ValueId id = touch(tensor);
  const bool borrowed = this->value(id).source && is_borrowed(tensor.storage());
  if (this->value(id).source && (!borrowed || keep_constants)) {
    auto then = this->value(id).fingerprint();
    if (then.has_value() && !then->looks_like(tensor.storage())) {
      id = add_changed_source(this->value(id).storage, tensor);
      then.reset();
    }
    if (!then.has_value() || (every_byte_ && then->coverage != Coverage::kEveryByte)) {
      this->value(id).set_fingerprint(Fingerprint::of(tensor.storage(), coverage()));
    }
  }
  Value& value = this->value(id);
  if (value.evidence && value.evidence->factory_hash.has_value() &&
      *value.evidence->factory_hash != hash_bytes(tensor.storage())) {
    value.evidence->factory_hash.reset();
    value.opaque = true;
  }
  if (borrowed && keep_constants && !tensor.requires_grad() && !value.copied) {
    copy(id, tensor.storage());
  }
  // What a weight is updated by is not held: few need it again, and they can be kept.
  const bool holds = c10::GradMode::is_enabled() || !keep_constants;
  has_loose_ = has_loose_ || !holds;
  if ((value.source || (value.opaque && keep_constants)) && !value.strong && holds) {
    hold(id, tensor.storage());
  }
  ++value.reads;
  return id;
}

void Tape::begin(PendingOp& pending, const OpInfo& info, c10::ArrayRef<const c10::IValue> args, OpId watched_from) {
  if (ops_.size() >= next_sweep_) {
    sweep(Sweep::kForTensorsToo);
  }
  if (taint_from_ != kNone) {
    taint();
  }
  ++pending_;
  pending.clear();
  pending.watched_from = watched_from;
  pending.info = &info;
  pending.opaque = !info.replayable;
  pending.grad_mode = c10::GradMode::is_enabled();
  pending.world = note_world();
  for (size_t i = 0; i < args.size(); ++i) {
    const c10::IValue& arg = args[i];
    const bool updated = contains(info.state_writes, i) && is_training(info, args);
    if (!can_be_passed_again(arg) || hides_tensors(arg)) {
      pending.opaque = true;
      pending.args.emplace_back();
      continue;
    }
    if (arg.isTensor() || arg.isTensorList() || arg.isOptionalTensorList()) {
      pending.args.emplace_back();
      if (!arg.isTensor()) {
        pending.lists.push_back({i, arg.toListRef().size(), arg.isOptionalTensorList()});
      }
      for_each_tensor(
          arg, [&](const at::Tensor& tensor, int32_t index) { add_tensor_arg(pending, tensor, i, index, updated); });
    } else {
      pending.args.push_back(own_argument(arg));
    }
  }
  for (size_t i = 0; i < args.size(); ++i) {
    const bool state = contains(info.state_writes, i) && is_training(info, args);
    if (state || contains(info.writes, i)) {
      for_each_tensor(args[i], [&](const at::Tensor& tensor, int32_t) { before_write(pending, tensor, state); });
    }
  }
}

void Tape::add_tensor_arg(PendingOp& pending, const at::Tensor& tensor, size_t arg, int32_t index, bool updated) {
  TensorArg entry;
  entry.arg = static_cast<uint16_t>(arg);
  entry.index = index;
  if (!tensor.defined()) {
    pending.tensors.push_back(entry);
    return;
  }
  if (!is_plain(tensor)) {
    pending.opaque = true;
    return;
  }
  const OpInfo& info = *pending.info;
  entry.updated = updated;
  entry.geometry = geometries_.of(tensor);
  const bool overwritten = contains(info.writes, arg) && info.overwrites &&
                           entry.geometry->covers(static_cast<int64_t>(tensor.storage().nbytes()));
  entry.read = !info.factory && !info.metadata_only && !overwritten && !updated;
  entry.value = entry.read ? read(tensor, pending.watched_from == kNone) : touch(tensor);
  pending.tensors.push_back(entry);
}

void Tape::before_write(PendingOp& pending, const at::Tensor& tensor, bool state) {
  if (!tensor.defined() || !is_plain(tensor)) {
    return;
  }
  const ValueId before = touch(tensor);
  const int32_t storage = this->value(before).storage;
  const StorageRecord& record = storages_[static_cast<size_t>(storage)];
  const int64_t bumps = pending.info->bumps_versions && !state && bumps_counter_of(record, tensor) ? 1 : 0;
  for (PendingWrite& write : pending.writes) {
    if (write.storage == storage) {
      write.geometry = &Geometry::unknown();
      write.own_bumps += bumps;
      return;
    }
  }
  Value& value = this->value(before);
  pending.writes.push_back(
      {storage, before, geometries_.of(tensor), state, static_cast<int64_t>(tensor._version()), record.version, bumps});
  if (pending.info->metadata_only || value.copied) {
    return;
  }
  const bool put_back = copies_sources_ && value.source && value.producer == kNone;
  if (put_back || pending.watched_from != kNone) {
    if (put_back || value.producer < pending.watched_from) {
      copy(before, tensor.storage());
    }
    return;
  }
  if (!value.is_constant()) {
    return;
  }
  // The op's own reading does not count, unless it returns more than what it writes.
  const auto own_reads = std::count_if(pending.tensors.begin(), pending.tensors.end(),
                                       [&](const TensorArg& arg) { return arg.value == before && arg.read; });
  const OpInfo& info = *pending.info;
  const bool needed_by_itself = own_reads > 0 && info.returns_other;
  const bool needed = value.reads > own_reads || needed_by_itself;
  if (needed && dropped_ > 0 && (needed_by_itself || is_needed_by_dropped(before))) {
    copy(before, tensor.storage());
  } else {
    lose(before, needed);
  }
}

void Tape::nested_write(PendingOp& pending, const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.has_storage()) {
    return;
  }
  for (PendingWrite& write : pending.writes) {
    const StorageRecord& record = storages_[static_cast<size_t>(write.storage)];
    if (record.weak._unsafe_get_target() == tensor.storage().unsafeGetStorageImpl() &&
        bumps_counter_of(record, tensor)) {
      ++write.own_bumps;
    }
  }
}

std::optional<Write> Tape::after_write(OpId id, const Op& op, const PendingWrite& write) {
  StorageRecord& record = storages_[static_cast<size_t>(write.storage)];
  // A version that moved by more than our own writes is another thread's doing: what is there now comes from outside.
  record.version = std::min(record.version_now(), write.record_version + write.own_bumps);
  if (op.info->metadata_only && !op.info->moves_storage) {
    return std::nullopt;
  }
  const Value& before = value(write.before);  // of a deque: stays where it is
  const auto storage = record.weak.lock();
  const auto nbytes = storage ? static_cast<int64_t>(storage->nbytes()) : before.nbytes;
  Write entry{write.before, kNone, false, write.state, false};
  entry.unseen = record.several_counters || record.version_now() == write.record_version;
  // An op that also reads what it overwrites, as in add_out(x, x, y), must find the old bytes there.
  const bool read = std::any_of(op.tensors.begin(), op.tensors.end(),
                                [&](const TensorArg& arg) { return arg.read && arg.value == write.before; });
  entry.full = !read && (write.state ? op.info->state_overwritten : op.info->overwrites) &&
               write.geometry->covers(nbytes) && nbytes == before.nbytes;
  Value after;
  after.producer = id;
  after.storage = write.storage;
  after.nbytes = nbytes;
  after.base = entry.full ? kNone : write.before;
  after.source = before.source;
  after.state = write.state;
  after.opaque = !before.source && (op.opaque || op.info->moves_storage || (before.opaque && !entry.full));
  after.uninitialised = before.uninitialised && !entry.full;
  const bool held = after.source && storage;
  if (is_tainted(op) || (after.base != kNone && before.is_out_of_reach())) {
    after.opaque = !after.source;  // nobody has what it was made from any more
  }
  entry.after = record.current = add_value(std::move(after));
  if (held) {
    hold(entry.after, c10::Storage(storage));
  }
  return entry;
}

Output Tape::add_output(OpId id, const Op& op, const at::Tensor& tensor) {
  if (!tensor.defined() || !is_plain(tensor)) {
    return {};
  }
  Output output{geometries_.of(tensor), kNone};
  const auto hit = by_storage_.find(tensor.storage().unsafeGetStorageImpl());
  if (hit != by_storage_.end()) {
    output.value = touch(tensor);
    return output;
  }
  Value made;
  made.producer = id;
  made.uninitialised = op.info->uninitialised;
  made.opaque = op.opaque || made.uninitialised || is_tainted(op);
  if (op.info->factory && !made.opaque) {
    made.add_evidence().factory_hash = hash_bytes(tensor.storage());
  }
  output.value = add_storage(tensor, std::move(made), /*watched=*/!op.info->factory);
  return output;
}

OpId Tape::end(PendingOp& pending, c10::ArrayRef<const c10::IValue> outputs) {
  --pending_;
  const auto id = static_cast<OpId>(ops_.size());
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
  for (const c10::IValue& output : outputs) {
    for_each_tensor(output, [&](const at::Tensor& tensor, int32_t) {
      op.opaque = op.opaque || (tensor.defined() && !is_plain(tensor));
    });
  }
  c10::SmallVector<Write, 2> writes;
  for (const PendingWrite& write : pending.writes) {
    if (const auto entry = after_write(id, op, write)) {
      writes.push_back(*entry);
    }
  }
  op.writes = arena_.keep(writes);
  c10::SmallVector<Output, 4> results;
  for (const c10::IValue& output : outputs) {
    for_each_tensor(output, [&](const at::Tensor& tensor, int32_t) { results.push_back(add_output(id, op, tensor)); });
  }
  op.outputs = arena_.keep(results);
  return id;
}

void Tape::abort(PendingOp& pending) {
  --pending_;
  for (const PendingWrite& write : pending.writes) {
    StorageRecord& record = storages_[static_cast<size_t>(write.storage)];
    if (const auto storage = record.weak.lock()) {
      Value unknown;
      unknown.source = true;
      unknown.storage = write.storage;
      unknown.nbytes = static_cast<int64_t>(storage->nbytes());
      record.version = record.version_now();
      record.current = add_value(std::move(unknown));
    }
  }
}

int64_t Tape::book_bytes() const {
  return static_cast<int64_t>(arena_.nbytes() + geometries_.nbytes() + ops_.size() * sizeof(Op) +
                              values_.size() * sizeof(Value) + storages_.size() * sizeof(StorageRecord) +
                              by_storage_.bucket_count() * (sizeof(void*) + 2 * sizeof(int32_t) + sizeof(void*)) +
                              living_.capacity() * sizeof(int32_t) + strong_.capacity() * sizeof(ValueId));
}

}  // namespace encore::tape
