// What was recorded: ops, and the values they read, wrote and made.
//
// A value is a storage at a version: views share it, in-place ops make the next one. The tape keeps nothing alive and
// nothing but recording changes it; where the bytes of its values are now, store::Residency knows.
#pragma once

#include <atomic>
#include <deque>
#include <string>

#include "tape/arena.h"
#include "tape/fingerprint.h"
#include "tape/geometry.h"
#include "tape/op_info.h"
#include "tape/random.h"
#include "tape/torch.h"
#include "tape/world.h"

namespace encore::tape {

using ValueId = int32_t;
using OpId = int32_t;
constexpr int32_t kNone = -1;

/// What the bytes of a value were, to find out whether they still are.
struct Evidence {
  std::optional<Imprint> imprint;          // of what a factory left, or of unset bytes when first read: raw writes show
  std::optional<Fingerprint> fingerprint;  // of a source when it was first read

  bool is_of(const c10::Storage& storage) const {
    return (!fingerprint || fingerprint->is_of(storage)) && (!imprint || imprint->is_of(storage));
  }
};

struct Value {
  OpId producer = kNone;    // kNone: from outside
  ValueId base = kNone;     // the version of this storage that the producer wrote over, where its bytes carry over
  int32_t storage = kNone;  // index into the tape's storages
  int32_t reads = 0;        // by recorded ops that may be replayed
  OpId born = 0;            // how many ops there were before it

  bool source = false;         // from outside: never replayed, only checked for change
  bool opaque = false;         // its producer cannot run again: kept as a constant once an op reads it
  bool uninitialised = false;  // opaque because nobody recorded its bytes being set
  bool state = false;          // left by an op that updates it without its version or its results showing it

  int64_t nbytes = 0;
  std::unique_ptr<Evidence> evidence;  // few values have any

  bool is_constant() const { return source || opaque; }

  std::optional<Fingerprint> fingerprint() const { return evidence ? evidence->fingerprint : std::nullopt; }
  void set_fingerprint(const Fingerprint& fingerprint) { add_evidence().fingerprint = fingerprint; }
  Evidence& add_evidence() {
    if (!evidence) {
      evidence = std::make_unique<Evidence>();
    }
    return *evidence;
  }
};

/// A tensor argument of an op; the argument's place in the boxed call is empty.
struct TensorArg {
  const Geometry* geometry = &Geometry::none();  // the tape's
  ValueId value = kNone;
  int32_t index = kNone;  // place in a list argument, kNone if the argument is the tensor itself
  uint16_t arg = 0;
  bool read = false;     // the op reads its bytes, which counts among the value's reads
  bool updated = false;  // the op updates its bytes as state, and its results don't depend on them
};

/// A list of tensors as an argument: its tensors are TensorArgs, the rest of its places are empty.
struct ListArg {
  size_t arg = 0;
  size_t size = 0;
  bool optional = false;  // of optional tensors
};

struct Write {
  ValueId before = kNone;
  ValueId after = kNone;
  bool full = false;    // every byte is set: what was there before does not matter
  bool state = false;   // the op's other results do not depend on what was there before
  bool unseen = false;  // a tensor over the storage may not have noticed: data() has a version counter of its own
};

struct Output {
  const Geometry* geometry = &Geometry::none();  // the tape's
  ValueId value = kNone;                         // kNone: undefined, or no plain tensor
};

/// What lies behind its lists belongs to the tape.
struct Op {
  const OpInfo* info = nullptr;
  c10::ArrayRef<c10::IValue> args;
  c10::ArrayRef<TensorArg> tensors;
  c10::ArrayRef<ListArg> lists;
  c10::ArrayRef<Write> writes;
  c10::ArrayRef<Output> outputs;
  std::shared_ptr<const RandomState> random;  // the generator before the op, if it drew numbers
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int32_t world = 0;  // index into the tape's worlds
  bool opaque = false;
  bool grad_mode = false;  // some kernels ask whether a backward may follow, and leave out what only it would need
};

/// Where a storage stands: which value its bytes are now, if nobody wrote to them unseen.
struct StorageRecord {
  c10::weak_intrusive_ptr<c10::StorageImpl> weak;
  c10::VariableVersion counter{c10::VariableVersion::DISABLED};  // until the tensor is first seen after it was made
  int64_t version = 0;
  ValueId current = kNone;
  bool several_counters = false;  // tensors with other counters than this one were seen

  bool changed_unseen() const;
  int64_t version_now() const;
  void watch(const at::Tensor& tensor);
};

/// A write of an op that has not ended.
struct PendingWrite {
  int32_t storage;
  ValueId before;
  const Geometry* geometry;  // the tape's
  bool state;
  int64_t version_before;  // of the tensor: tensors that share a storage need not share a version counter
  int64_t record_version;  // of the storage's record
  int64_t own_bumps;       // of the record's counter by this op: what goes beyond is somebody else's write
};

/// An op between its start and its end. May be used again for another one.
struct PendingOp {
  const OpInfo* info = nullptr;
  c10::SmallVector<c10::IValue, 8> args;
  c10::SmallVector<TensorArg, 8> tensors;
  c10::SmallVector<ListArg, 2> lists;
  c10::SmallVector<PendingWrite, 2> writes;
  c10::SmallVector<ValueId, 1> written_before;  // what it reads in their place was written through a pointer
  std::shared_ptr<const RandomState> random;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int32_t world = 0;
  OpId watched_from = kNone;
  bool opaque = false;
  bool grad_mode = false;

  void clear();
};

/// Not thread-safe by itself: callers hold mutex(). Who only reads it has it as const; record::Writer writes it.
class Tape {
 public:
  explicit Tape(std::string name);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  RecursiveMutex& mutex() const { return mutex_; }
  const std::string& name() const { return *name_; }
  const std::shared_ptr<const std::string>& shared_name() const { return name_; }

  /// The value that the tensor's bytes are now, or kNone if the tape does not know them.
  ValueId find(const at::Tensor& tensor) const;
  /// The storage's place among the tape's, or kNone.
  int32_t find_storage(const c10::StorageImpl* storage) const;
  /// How the tensor lies, once for all that lie like it.
  const Geometry* geometry_of(const at::Tensor& tensor) const { return geometries_.of(tensor); }

  const std::deque<Op>& ops() const { return ops_; }
  const Op& op(OpId id) const { return ops_[static_cast<size_t>(id)]; }
  /// Whether an op has drawn random numbers, so that a replay may need the random lock; also without the tape's lock.
  bool has_drawn() const { return has_drawn_; }
  int32_t num_storages() const { return static_cast<int32_t>(storages_.size()); }
  const StorageRecord& storage(int32_t index) const { return storages_[static_cast<size_t>(index)]; }
  const StorageRecord& storage_of(ValueId id) const { return storage(value(id).storage); }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  size_t num_values() const { return values_.size(); }
  /// Of each generator from which ops `first` to before `last` drew, its state before the first of them.
  std::vector<const RandomState*> generators_before(OpId first, OpId last) const;
  /// All generators that ops drew from go back to before the first of these; one may have been drawn from earlier, and
  /// was in `start`.
  void restore_generators(const RandomState& start) const;
  /// The settings under which the op ran.
  const World& world_of(const Op& op) const { return worlds_[static_cast<size_t>(op.world)]; }
  /// Whether the value is what its storage holds now, as far as versions tell.
  bool is_current(ValueId id) const {
    const StorageRecord& record = storage_of(id);
    return record.current == id && !record.changed_unseen();
  }

  /// Visits what replaying the value's producer reads for it: the bytes it wrote over, and its arguments.
  template <class Visit>
  void for_each_read(ValueId id, const Visit& visit) const {
    const Value& made = value(id);
    if (made.base != kNone) {
      visit(made.base);
    }
    for (const TensorArg& arg : op(made.producer).tensors) {
      if (arg.read) {
        visit(arg.value);
      }
    }
  }

  /// A tensor over the value's bytes at `storage`. If it is changed in place, that shows as a change of the value does.
  at::Tensor tensor_over(ValueId id, const Geometry& geometry, const c10::Storage& storage) const;

  /// From here on fingerprints of sources are taken of all their bytes.
  void watch_every_byte() { every_byte_ = true; }
  bool every_byte() const { return every_byte_; }
  Coverage coverage() const { return every_byte_ ? Coverage::kEveryByte : Coverage::kWide; }

  /// What the tape itself takes.
  int64_t book_bytes() const;

  /// "aten::mul.Tensor (op 3 of 'block')", for messages.
  std::string describe_op(OpId id) const;
  /// "Float[8, 4], argument 'weight' of aten::addmm (op 1 of 'block')".
  std::string describe_source(ValueId id) const;

  /// The whole tape as text, the same on every run.
  std::string dump() const;

  // For who records.
  StorageRecord& storage(int32_t index) { return storages_[static_cast<size_t>(index)]; }
  Value& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  /// Autograd has saved the value's tensor: changes of it show from here on.
  void watch(ValueId value, const at::Tensor& tensor) { storage(this->value(value).storage).watch(tensor); }
  ValueId add_value(Value value);
  /// `watched`: changes of it show from here on.
  ValueId add_storage(const at::Tensor& tensor, Value value, bool watched);
  /// The settings of the moment, for an op's `world`.
  int32_t note_world();
  /// The op, without its writes and results, which come next.
  OpId add_op(PendingOp& pending);
  Op& op(OpId id) { return ops_[static_cast<size_t>(id)]; }
  Arena& arena() { return arena_; }

 private:
  std::shared_ptr<const std::string> name_;
  mutable RecursiveMutex mutex_;
  std::deque<Op> ops_;
  std::atomic<bool> has_drawn_{false};
  std::deque<Value> values_;
  std::deque<StorageRecord> storages_;
  ska::flat_hash_map<const c10::StorageImpl*, int32_t> by_storage_;
  Arena arena_;  // of what ops consist of
  mutable Geometries geometries_;
  std::vector<World> worlds_;
  bool every_byte_ = false;
};

}  // namespace encore::tape
