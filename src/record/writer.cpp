// From boxed calls to ops and values.
#include "record/writer.h"

#include "tape/compat.h"

namespace encore::record {
namespace {

using tape::Fingerprint;
using tape::Geometry;
using tape::Imprint;
using tape::is_plain;
using tape::kNone;
using tape::Op;
using tape::OpId;
using tape::OpInfo;
using tape::Output;
using tape::PendingOp;
using tape::PendingWrite;
using tape::StorageRecord;
using tape::TensorArg;
using tape::Value;
using tape::ValueId;
using tape::Write;

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
bool is_borrowed(const Value& value, const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  return value.source && storage.nbytes() > 0 && storage.data_ptr().get_context() == nullptr;
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

ValueId Writer::add_value(Value value) {
  residency_.add_value();
  return tape_.add_value(std::move(value));
}

ValueId Writer::add_storage(const at::Tensor& tensor, Value value, bool watched) {
  residency_.add_value();
  return tape_.add_storage(tensor, std::move(value), watched);
}

/// The tensor's value, known from here on: what no recorded op made, or was changed unseen, comes from outside.
ValueId Writer::touch(const at::Tensor& tensor) {
  const int32_t storage = tape_.find_storage(tensor.storage().unsafeGetStorageImpl());
  if (storage == kNone) {
    Value outside;
    outside.source = true;
    return add_storage(tensor, std::move(outside), /*watched=*/true);
  }
  StorageRecord& record = tape_.storage(storage);
  record.watch(tensor);
  return record.changed_unseen() ? add_changed_source(storage, tensor) : record.current;
}

ValueId Writer::add_changed_source(int32_t storage, const at::Tensor& tensor) {
  StorageRecord& record = tape_.storage(storage);
  Value outside;
  outside.source = true;
  outside.storage = storage;
  outside.nbytes = static_cast<int64_t>(tensor.storage().nbytes());
  record.version = record.version_now();
  residency_.forget(record.current);  // would be refused
  return record.current = add_value(std::move(outside));
}

/// What an op reads of the bytes that a factory left, or that nobody has set, may have been written through a pointer.
/// Where no op had read them before they are a constant, from then on as well; else what is there now comes from
/// outside.
ValueId Writer::look_for_raw_writes(PendingOp& pending, const at::Tensor& tensor, const Geometry& part) {
  const ValueId id = touch(tensor);
  Value& value = tape_.value(id);
  if (value.source || !(value.uninitialised || (value.evidence && value.evidence->imprint))) {
    return id;
  }
  std::optional<Imprint>& imprint = value.add_evidence().imprint;
  if (imprint.has_value() && imprint->is_of(tensor.storage(), part)) {
    return id;
  }
  if (imprint.has_value() && value.reads > 0) {
    pending.written_before.push_back(id);
    return add_changed_source(value.storage, tensor);
  }
  imprint = Imprint(tensor.storage());
  value.opaque = true;
  return id;
}

ValueId Writer::read(PendingOp& pending, const at::Tensor& tensor, const Geometry& part, bool keep_constants) {
  ValueId id = look_for_raw_writes(pending, tensor, part);
  const bool borrowed = is_borrowed(tape_.value(id), tensor);
  if (tape_.value(id).source && (!borrowed || keep_constants)) {
    auto then = tape_.value(id).fingerprint();
    if (then.has_value() && !then->looks_like(tensor.storage())) {
      id = add_changed_source(tape_.value(id).storage, tensor);
      then.reset();
    }
    if (!then.has_value() || (tape_.every_byte() && then->coverage != tape::Coverage::kEveryByte)) {
      tape_.value(id).set_fingerprint(Fingerprint::of(tensor.storage(), tape_.coverage()));
    }
  }
  return count_read(id, tensor, borrowed, keep_constants);
}

/// A view has the bytes of its argument, and looks at none of them: who reads the view does.
ValueId Writer::read_by_view(const at::Tensor& tensor, bool keep_constants) {
  const ValueId id = touch(tensor);
  return count_read(id, tensor, is_borrowed(tape_.value(id), tensor), keep_constants);
}

ValueId Writer::count_read(ValueId id, const at::Tensor& tensor, bool borrowed, bool keep_constants) {
  residency_.reads(id, tensor, borrowed, keep_constants);
  ++tape_.value(id).reads;
  return id;
}

void Writer::begin(PendingOp& pending, const OpInfo& info, c10::ArrayRef<const c10::IValue> args, OpId watched_from) {
  pending.clear();
  residency_.op_begins();
  try {
    note_arguments(pending, info, args, watched_from);
  } catch (...) {  // a copy was refused
    abort(pending);
    throw;
  }
}

void Writer::note_arguments(PendingOp& pending, const OpInfo& info, c10::ArrayRef<const c10::IValue> args,
                            OpId watched_from) {
  pending.watched_from = watched_from;
  pending.info = &info;
  pending.opaque = !info.replayable;
  pending.grad_mode = c10::GradMode::is_enabled();
  pending.world = tape_.note_world();
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

void Writer::add_tensor_arg(PendingOp& pending, const at::Tensor& tensor, size_t arg, int32_t index, bool updated) {
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
  entry.geometry = tape_.geometry_of(tensor);
  const bool overwritten = contains(info.writes, arg) && info.overwrites &&
                           entry.geometry->covers(static_cast<int64_t>(tensor.storage().nbytes()));
  entry.read = !info.factory && !info.metadata_only && !overwritten && !updated;
  const bool keep_constants = pending.watched_from == kNone;
  entry.value = !entry.read    ? touch(tensor)
                : info.is_view ? read_by_view(tensor, keep_constants)
                               : read(pending, tensor, *entry.geometry, keep_constants);
  pending.tensors.push_back(entry);
}

void Writer::before_write(PendingOp& pending, const at::Tensor& tensor, bool state) {
  if (!tensor.defined() || !is_plain(tensor)) {
    return;
  }
  const ValueId before = touch(tensor);
  const int32_t storage = tape_.value(before).storage;
  const StorageRecord& record = tape_.storage(storage);
  const int64_t bumps = pending.info->bumps_versions && !state && bumps_counter_of(record, tensor) ? 1 : 0;
  for (PendingWrite& write : pending.writes) {
    if (write.storage == storage) {
      write.geometry = &Geometry::unknown();
      write.own_bumps += bumps;
      return;
    }
  }
  pending.writes.push_back({storage, before, tape_.geometry_of(tensor), state, static_cast<int64_t>(tensor._version()),
                            record.version, bumps});
  residency_.overwrites(pending, before, tensor.storage());
}

void Writer::nested_write(PendingOp& pending, const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.has_storage()) {
    return;
  }
  for (PendingWrite& write : pending.writes) {
    const StorageRecord& record = tape_.storage(write.storage);
    if (record.weak._unsafe_get_target() == tensor.storage().unsafeGetStorageImpl() &&
        bumps_counter_of(record, tensor)) {
      ++write.own_bumps;
    }
  }
}

std::optional<Write> Writer::after_write(OpId id, const Op& op, const PendingWrite& write) {
  StorageRecord& record = tape_.storage(write.storage);
  // A version that moved by more than our own writes is another thread's doing: what is there now comes from outside.
  record.version = std::min(record.version_now(), write.record_version + write.own_bumps);
  if (op.info->metadata_only && !op.info->moves_storage) {
    return std::nullopt;
  }
  const Value& before = tape_.value(write.before);  // of a deque: stays where it is
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
  const bool was_opaque = residency_.is_constant(write.before);
  after.opaque = !before.source && (op.opaque || op.info->moves_storage || (was_opaque && !entry.full));
  after.uninitialised = before.uninitialised && !entry.full;
  const bool held = after.source && storage;
  if (residency_.is_out_of_reach(op) || (after.base != kNone && residency_.is_out_of_reach(write.before))) {
    after.opaque = !after.source;  // nobody has what it was made from any more
  }
  entry.after = record.current = add_value(std::move(after));
  if (held) {
    residency_.hold(entry.after, c10::Storage(storage));
  }
  return entry;
}

Output Writer::add_output(OpId id, const Op& op, const at::Tensor& tensor) {
  if (!tensor.defined() || !is_plain(tensor)) {
    return {};
  }
  Output output{tape_.geometry_of(tensor), kNone};
  if (tape_.find_storage(tensor.storage().unsafeGetStorageImpl()) != kNone) {
    output.value = touch(tensor);
    return output;
  }
  Value made;
  made.producer = id;
  made.uninitialised = op.info->uninitialised;
  made.opaque = op.opaque || made.uninitialised || residency_.is_out_of_reach(op);
  if (op.info->factory && !made.opaque) {
    made.add_evidence().imprint.emplace(tensor.storage());
  }
  output.value = add_storage(tensor, std::move(made), /*watched=*/!op.info->factory);
  return output;
}

OpId Writer::end(PendingOp& pending, c10::ArrayRef<const c10::IValue> outputs) {
  residency_.op_ended();
  const OpId id = tape_.add_op(pending);
  Op& op = tape_.op(id);
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
  op.writes = tape_.arena().keep(writes);
  c10::SmallVector<Output, 4> results;
  for (const c10::IValue& output : outputs) {
    for_each_tensor(output, [&](const at::Tensor& tensor, int32_t) { results.push_back(add_output(id, op, tensor)); });
  }
  op.outputs = tape_.arena().keep(results);
  return id;
}

void Writer::abort(PendingOp& pending) {
  residency_.op_ended();
  for (const PendingWrite& write : pending.writes) {
    StorageRecord& record = tape_.storage(write.storage);
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

void Writer::fingerprint_results(size_t first) {
  for (auto i = static_cast<int32_t>(first); i < tape_.num_storages(); ++i) {
    const StorageRecord& record = tape_.storage(i);
    const auto storage = record.weak.lock();
    Value& value = tape_.value(record.current);
    if (storage && !record.changed_unseen() && !value.source) {
      const bool needed = residency_.is_needed_by_dropped(record.current);
      const tape::Coverage coverage = needed ? tape_.coverage() : tape::Coverage::kGlance;
      value.set_fingerprint(Fingerprint::of(c10::Storage(storage), coverage));
    }
  }
}

}  // namespace encore::record
