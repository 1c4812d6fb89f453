// What was recorded: ops, the values they read, wrote and made, and where each value can still be found.
//
// A value is a storage at a version: views share it, in-place ops make the next one. The tape holds values that ops
// made weakly, so that recording keeps nothing alive, and strongly only what it could not make again: tensors from
// outside, constants written behind ATen's back, and copies of outside tensors taken before a recorded op changed them.
#pragma once

#include <atomic>
#include <deque>
#include <string>
#include <unordered_set>

#include "tape/arena.h"
#include "tape/geometry.h"
#include "tape/op_info.h"
#include "tape/random.h"
#include "tape/resting.h"
#include "tape/torch.h"
#include "tape/world.h"

namespace encore::tape {

using ValueId = int32_t;
using OpId = int32_t;
constexpr int32_t kNone = -1;

/// What the bytes of a value were, to find out whether they still are.
struct Evidence {
  std::optional<uint64_t> factory_hash;    // as the factory op left them: a raw write shows
  std::optional<Fingerprint> fingerprint;  // of a source when it was first read
  uint64_t verified_in = 0;                // the backward in which they were last compared with that
};

/// In what other way than by its own storage a value is there.
struct Presence {
  c10::Storage retained;         // brought back by replay, until every claim on it is settled
  int64_t retained_version = 0;  // of the storage's counter, which tensors over what is retained share
  int32_t claims = 0;
  std::weak_ptr<const Resting> resting;  // as long as somebody holds it in that form
};

struct Value {
  OpId producer = kNone;    // kNone: from outside
  ValueId base = kNone;     // the version of this storage that the producer wrote over, where its bytes carry over
  int32_t storage = kNone;  // index into the tape's storages
  int64_t nbytes = 0;
  int32_t reads = 0;  // by recorded ops that may be replayed
  OpId born = 0;      // how many ops there were before it

  bool source = false;                 // from outside: never replayed, only checked for change
  bool opaque = false;                 // its producer cannot run again: kept as a constant once an op reads it
  bool uninitialised = false;          // opaque because nobody recorded its bytes being set
  bool lost = false;                   // a constant whose bytes are gone: nobody needed them
  bool tainted = false;                // computed from what is lost, so it can't be had again
  bool secured = false;                // all constants that its replay needs are held
  bool state = false;                  // left by an op that updates it without its version or its results showing it
  bool copied = false;                 // `strong` is a copy of our own, made before the storage was overwritten
  std::unique_ptr<Evidence> evidence;  // few values have any

  c10::Storage strong;                 // sources, constants, copies
  std::unique_ptr<Presence> presence;  // of few values at a time

  bool is_constant() const { return source || opaque; }
  /// Nothing that needs it can be computed again.
  bool is_out_of_reach() const { return lost || (tainted && !is_constant()); }

  bool is_retained() const { return presence && presence->retained; }
  c10::Storage retained() const { return presence ? presence->retained : c10::Storage(); }
  /// The value in a smaller form, if somebody holds it in one.
  std::shared_ptr<const Resting> resting() const { return presence ? presence->resting.lock() : nullptr; }
  bool is_resting() const { return presence && !presence->resting.expired(); }
  Presence& add_presence() {
    if (!presence) {
      presence = std::make_unique<Presence>();
    }
    return *presence;
  }

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

/// A backward begins: what sources are is looked at anew, more closely than between two replays of one backward.
void begin_backward();

/// Who may ask for values later: a region with tensors that autograd saved. Called under the tape's lock.
class Holder {
 public:
  virtual ~Holder() = default;
  /// Visits the values that may be asked for; with `dropped_only` those that are held nowhere.
  virtual void for_each_needed(bool dropped_only, const std::function<void(ValueId)>& visit) const = 0;
  /// An op wrote over `before`. Gives the tensors over it that did not notice, and that autograd therefore reads as
  /// they are now, to `save_anew`.
  using SaveAnew = std::function<std::shared_ptr<void>(const at::Tensor&)>;
  virtual void overwritten_unseen(ValueId /*before*/, const SaveAnew& /*save_anew*/) {}
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
  std::shared_ptr<const RandomState> random;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int32_t world = 0;
  OpId watched_from = kNone;
  bool opaque = false;
  bool grad_mode = false;

  void clear();
};

/// Not thread-safe by itself: callers hold mutex().
class Tape {
 public:
  explicit Tape(std::string name);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  RecursiveMutex& mutex() { return mutex_; }
  const std::string& name() const { return *name_; }
  const std::shared_ptr<const std::string>& shared_name() const { return name_; }

  /// Notes the arguments of an op that is about to run. Copies outside tensors that it will overwrite and that are
  /// needed. With `watched_from` the op will never be replayed, so its constants need not be kept, but every value from
  /// before op `watched_from` that it overwrites is copied, for its function to be called again on.
  void begin(PendingOp& pending, const OpInfo& info, c10::ArrayRef<const c10::IValue> args, OpId watched_from = kNone);

  /// A call inside the op writes to the tensor.
  void nested_write(PendingOp& pending, const at::Tensor& tensor) const;

  /// Notes its results; `outputs` are the last values of the boxed call's stack.
  OpId end(PendingOp& pending, c10::ArrayRef<const c10::IValue> outputs);

  /// The op threw: what it wrote to is unknown from here on.
  void abort(PendingOp& pending);

  /// Autograd has saved the value's tensor: changes of it show from here on.
  void watch(ValueId value, const at::Tensor& tensor) { storage(this->value(value).storage).watch(tensor); }

  /// The value that the tensor's bytes are now, or kNone if the tape does not know them.
  ValueId find(const at::Tensor& tensor) const;
  /// How the tensor lies, once for all that lie like it.
  const Geometry* geometry_of(const at::Tensor& tensor) { return geometries_.of(tensor); }

  /// Where the value's bytes are now, or an empty storage. Throws ChangedError for a source that changed unseen.
  c10::Storage resident(ValueId id) const;

  /// A tensor over the value's bytes at `storage`. If it is changed in place, that shows as a change of the value does.
  at::Tensor tensor_over(ValueId id, const Geometry& geometry, const c10::Storage& storage) const;

  /// From here on fingerprints of sources are taken of all their bytes.
  void watch_every_byte() { every_byte_ = true; }
  bool every_byte() const { return every_byte_; }
  /// From here on every source is copied before an op overwrites it, needed or not: to be put back.
  void copy_overwritten_sources() { copies_sources_ = true; }

  /// From here on a change of the bytes of results, from storage `first` on, that outlive their ops shows: nobody
  /// records who writes to them next.
  void fingerprint_results(size_t first);

  /// True if the value can be had again without being kept: nothing that its replay needs is lost.
  bool can_be_replayed(ValueId id);

  /// Regions say when they begin and end to hold values.
  void add_holder(Holder* holder) { holders_.insert(holder); }
  void remove_holder(Holder* holder) { holders_.erase(holder); }
  const std::unordered_set<Holder*>& holders() const { return holders_; }
  /// Lets go of constants and copies that nobody can ask for any more, through a handle or a tensor that is alive. Done
  /// now and then while ops are recorded. Around a backward also of what only tensors that autograd has not saved were
  /// computed from, where nobody else has it: plain training would not hold it, and those tensors can be kept.
  enum class Sweep { kForTensorsToo, kForHandles };
  void sweep(Sweep how);

  /// Lets go of everything that replay brought back.
  void release_retained();
  /// Holds a value that replay brought back until `claims` users have settled.
  void retain(ValueId id, c10::Storage storage, int32_t claims);
  /// One user of a retained value is done with it.
  void settle(ValueId id);
  /// Lets go of a retained value before its users have settled.
  void let_go(ValueId id);
  /// Values that were retained since the last release, some of them settled by now.
  const std::vector<ValueId>& retained() const { return retained_; }
  /// Counts release_retained() calls: claims from before the last one are void.
  int64_t epoch() const { return epoch_; }

  const std::deque<Op>& ops() const { return ops_; }
  /// Whether an op has drawn random numbers, so that a replay may need the random lock; also without the tape's lock.
  bool has_drawn() const { return has_drawn_; }
  int32_t num_storages() const { return static_cast<int32_t>(storages_.size()); }
  StorageRecord& storage(int32_t index) { return storages_[static_cast<size_t>(index)]; }
  const StorageRecord& storage(int32_t index) const { return storages_[static_cast<size_t>(index)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  size_t num_values() const { return values_.size(); }
  /// What the tape itself takes, without what it holds of tensors' bytes.
  int64_t book_bytes() const;
  int64_t num_dropped() const { return dropped_; }
  void count_dropped(int64_t delta) {
    dropped_ += delta;
    ++drop_changes_;
  }
  /// The settings under which the op ran.
  const World& world_of(const Op& op) const { return worlds_[static_cast<size_t>(op.world)]; }

  /// "aten::mul.Tensor (op 3 of 'block')", for messages.
  std::string describe_op(OpId id) const;
  /// "Float[8, 4], argument 'weight' of aten::addmm (op 1 of 'block')".
  std::string describe_source(ValueId id) const;

  /// The whole tape as text, the same on every run.
  std::string dump() const;

 private:
  ValueId read(const at::Tensor& tensor, bool keep_constants);
  ValueId touch(const at::Tensor& tensor);
  ValueId add_changed_source(int32_t storage, const at::Tensor& tensor);
  ValueId add_value(Value value);
  ValueId add_storage(const at::Tensor& tensor, Value value, bool watched);
  void add_tensor_arg(PendingOp& pending, const at::Tensor& tensor, size_t arg, int32_t index, bool updated);
  void before_write(PendingOp& pending, const at::Tensor& tensor, bool state);
  std::optional<Write> after_write(OpId id, const Op& op, const PendingWrite& write);
  Output add_output(OpId id, const Op& op, const at::Tensor& tensor);
  int32_t note_world();
  void hold(ValueId id, c10::Storage storage);
  void copy(ValueId id, const c10::Storage& storage);
  void lose(ValueId id, bool needed);
  bool is_tainted(const Op& op) const;
  void taint();
  void taint(ValueId id);
  bool is_needed_by_dropped(ValueId id);
  bool secure(ValueId id);
  std::vector<bool> ancestors(std::vector<ValueId> open) const;
  Coverage coverage() const { return every_byte_ ? Coverage::kEveryByte : Coverage::kWide; }

  std::shared_ptr<const std::string> name_;
  mutable RecursiveMutex mutex_;
  std::deque<Op> ops_;
  std::atomic<bool> has_drawn_{false};
  std::deque<Value> values_;
  std::deque<StorageRecord> storages_;
  ska::flat_hash_map<const c10::StorageImpl*, int32_t> by_storage_;
  Arena arena_;  // of what ops consist of
  Geometries geometries_;
  std::vector<ValueId> retained_;
  size_t next_prune_ = 1024;  // when there are so many of them
  std::vector<World> worlds_;
  std::unordered_set<Holder*> holders_;
  std::vector<int32_t> living_;  // storages that were alive when last looked at
  std::vector<ValueId> strong_;  // values that are or were held strongly
  int64_t dropped_ = 0;          // handles that hold nothing: as long as there are any, replay may be asked for
  int64_t drop_changes_ = 0;
  int64_t needed_at_ = -1;    // drop_changes_ when needed_ was found
  std::vector<bool> needed_;  // by handles that hold nothing
  OpId taint_from_ = -1;      // values were lost that ops from here on may have read
  size_t next_sweep_ = 0;     // when there are so many ops
  bool has_loose_ = false;    // constants were read that are not held
  int pending_ = 0;           // ops between begin and end
  int64_t epoch_ = 0;
  bool every_byte_ = false;
  bool copies_sources_ = false;
};

}  // namespace encore::tape
