// Where each value of a tape is now: the one who knows, and the only one who changes it.
//
// What ops made is held weakly, so that recording keeps nothing alive; strongly only what replay could not make again:
// tensors from outside, constants written behind ATen's back, and copies of outside tensors taken before a recorded op
// changed them. Regions decide what autograd's tensors keep, a governor what else, and replay brings back: they say so
// here. docs/architecture.md has the states and their transitions as a table.
#pragma once

#include <unordered_set>

#include "store/holding.h"
#include "store/resting.h"

namespace encore::store {

/// Where a value's bytes are, as far as this library holds them. The first that is true counts.
enum class Where : uint8_t {
  kLost,      // nowhere: a constant that nobody needed when its bytes went
  kCopied,    // in a copy of our own, made before its storage was overwritten
  kHeld,      // in its own storage, held here because replay could not make it again
  kKept,      // in its own storage, by the holdings that keep it
  kRetained,  // in a storage that replay brought back, until every claim on it is settled
  kResting,   // in a smaller form
  kLoose,     // in its own storage, if somebody else holds that; else nowhere, and replay makes it again
};

/// A backward begins: what sources are is looked at anew, more closely than between two replays of one backward.
void begin_backward();

/// Callers hold the tape's lock.
class Residency {
 public:
  explicit Residency(std::string name) : tape_(std::move(name)) {}

  const tape::Tape& tape() const { return tape_; }
  /// For record::Writer alone.
  tape::Tape& tape_to_write() { return tape_; }

  // -- Where --

  Where where(tape::ValueId id) const;
  /// The value's bytes, or an empty storage. Throws ChangedError for a source that changed unseen.
  c10::Storage resident(tape::ValueId id) const;
  /// What replay brought back of it, or an empty storage.
  c10::Storage retained(tape::ValueId id) const {
    return place(id).presence ? place(id).presence->retained : c10::Storage();
  }
  /// The value in a smaller form; null if there is none.
  std::shared_ptr<const Resting> form(tape::ValueId id) const;
  bool is_resting(tape::ValueId id) const { return place(id).presence && place(id).presence->form; }
  bool is_retained(tape::ValueId id) const { return where_retained(place(id)); }
  /// Never computed again: recorded so, or made so since, because what it was computed from is lost.
  bool is_constant(tape::ValueId id) const { return tape_.value(id).is_constant() || place(id).made_constant; }
  /// Nothing that needs it can be computed again.
  bool is_out_of_reach(tape::ValueId id) const {
    return place(id).own == Where::kLost || (place(id).tainted && !is_constant(id));
  }
  /// Nor can what this op makes.
  bool is_out_of_reach(const tape::Op& op) const;
  /// True if the value can be had again without being kept: nothing that its replay needs is lost.
  bool can_be_replayed(tape::ValueId id);
  /// The copy that was made of the value, or an empty storage.
  c10::Storage copy_of(tape::ValueId id) const {
    return place(id).own == Where::kCopied ? place(id).bytes : c10::Storage();
  }
  int64_t copied_bytes() const;

  // -- Keep, drop: holdings --

  /// The holding is about the value from here on, and keeps `bytes` if they are there.
  void add(Holding& holding, const Holder& holder, HoldingList& of_holder, tape::ValueId value, c10::Storage bytes);
  void remove(Holding& holding, HoldingList& of_holder);
  /// The holding is about another version, in the same storage, from here on.
  void move(Holding& holding, tape::ValueId to);
  void drop(Holding& holding);
  /// The value's holdings as they are now, those of one holder only or all.
  c10::SmallVector<Holding*, 8> holdings_of(tape::ValueId id, const Holder* holder = nullptr) const;
  /// How many of our own references keep the value's storage alive.
  int32_t references(tape::ValueId id) const {
    return (is_retained(id) ? 1 : 0) + static_cast<int32_t>(place(id).keepers);
  }
  /// Values that are kept or retained; some may be there twice.
  std::vector<tape::ValueId> held_values() const;
  /// Whether letting go of the value would free its bytes and could be undone.
  bool can_evict(tape::ValueId id);
  /// Lets go of the value, if it can be evicted.
  bool evict(tape::ValueId id);
  /// Of the value nothing is to be kept that autograd saves later.
  void give_up(tape::ValueId id) { place(id).given_up = true; }
  bool is_given_up(tape::ValueId id) const { return place(id).given_up; }

  // -- Rest --

  /// The holding shares in this form of the value, which may be null: then in none.
  void rest(Holding& holding, const std::shared_ptr<const Resting>& form);
  /// The form stays until it is unpinned, whoever else shares in it.
  void pin_form(tape::ValueId id, const std::shared_ptr<const Resting>& form);
  void unpin_form(tape::ValueId id);
  bool is_form_pinned(tape::ValueId id) const { return place(id).presence && place(id).presence->form_pinned; }
  bool has_pinned_forms() const { return num_pinned_forms_ > 0; }
  void unpin_forms();

  // -- Bring back, pin --

  /// Replay brought the value back. It is retained until every holding of `waiting` that keeps nothing has had it;
  /// `pinned`: and until let_go().
  void came_back(tape::ValueId id, c10::Storage storage, const Holder& waiting, bool pinned);
  /// Retains a value that is there, so that it outlives everybody else's use of it, until let_go().
  void pin(tape::ValueId id);
  /// The holding has had the value that came back.
  void settle(Holding& holding);
  /// Lets go of a retained value before its users have settled.
  void let_go(tape::ValueId id);
  /// Lets go of everything that is retained.
  void release_retained();

  // -- Told by who records --

  /// An op begins: now and then it is looked at what can be let go of.
  void op_begins();
  void op_ended() { --ops_in_flight_; }
  /// From here on each byte of a source is looked at, not a sample.
  void watch_every_byte() { tape_.watch_every_byte(); }
  /// The value's bytes are somebody else's to write from here on, without an op or a version counter showing it: what
  /// is read next comes from outside, and what was computed before is computed from what the op made.
  void hand_out(tape::ValueId id, const at::Tensor& tensor);
  /// The storage was written to and put back: its version has moved and its bytes have not.
  void put_back(int32_t storage);
  /// The tape has one more value.
  void add_value() { places_.emplace_back(); }
  /// An op reads the value; `borrowed`: from memory that its storage does not own.
  void reads(tape::ValueId id, const at::Tensor& tensor, bool borrowed, bool keep_constants);
  /// An op is about to overwrite the value's storage.
  void overwrites(const tape::PendingOp& op, tape::ValueId id, const c10::Storage& storage);
  /// Holds what replay could not make again.
  void hold(tape::ValueId id, c10::Storage storage);
  /// The value's storage was changed unseen: what is held of it is no longer the value.
  void forget(tape::ValueId id);
  /// From here on every source is copied before an op overwrites it, needed or not: to be put back.
  void copy_overwritten_sources() { copies_sources_ = true; }

  // -- Let go of what nobody can ask for --

  void add_holder(Holder* holder) { holders_.insert(holder); }
  void remove_holder(Holder* holder) { holders_.erase(holder); }
  /// A holder waits for one more, or one less, that is held nowhere.
  void count_dropped(int64_t delta) {
    num_dropped_ += delta;
    ++drop_changes_;
  }
  /// Whether one who holds nothing needs the value, or something computed from it.
  bool is_needed_by_dropped(tape::ValueId id);
  /// Lets go of constants and copies that nobody can ask for any more, through a holding or a tensor that is alive.
  /// Done now and then while ops are recorded. Around a backward also of what only tensors that autograd has not saved
  /// were computed from, where nobody else has it: plain training would not hold it, and those tensors can be kept.
  enum class Sweep { kForTensorsToo, kForHandles };
  void sweep(Sweep how);

  /// What the store itself takes, without what it holds of tensors' bytes.
  int64_t book_bytes() const;

 private:
  /// In what other way than by its own storage a value is there.
  struct Presence {
    c10::Storage retained;
    int64_t retained_version = 0;  // of the storage's counter, which tensors over what is retained share
    int32_t claims = 0;
    int32_t resters = 0;  // holdings that share in the form
    bool form_pinned = false;
    std::shared_ptr<const Resting> form;
  };

  /// Of one value: there are as many as values, so it is kept small.
  struct Place {
    static constexpr uint32_t kMostKeepers = (1U << 24) - 1;

    c10::Storage bytes;                  // kHeld, kCopied
    std::unique_ptr<Presence> presence;  // of few values at a time
    HoldingList holdings;
    int32_t kept_at = 0;     // in kept_, if anybody keeps it
    Where own : 3;           // one of kLost, kCopied, kHeld, kLoose
    bool tainted : 1;        // computed from what is lost, so it can't be had again
    bool secured : 1;        // all constants that its replay needs are held
    bool made_constant : 1;  // tainted while it was still there
    bool given_up : 1;
    uint32_t keepers : 24;  // holdings that keep its bytes

    Place() : own(Where::kLoose), tainted(false), secured(false), made_constant(false), given_up(false), keepers(0) {}
    Presence& add_presence() {
      if (!presence) {
        presence = std::make_unique<Presence>();
      }
      return *presence;
    }
  };

  enum class Verb : uint8_t { kHold, kCopy, kLose, kForget, kKeep, kDrop, kReturn, kRelease, kRest, kWake };
  static bool may(Verb verb, Where from, Where to);
  class Move;  // checks one, in builds that check

  Place& place(tape::ValueId id) { return places_[static_cast<size_t>(id)]; }
  const Place& place(tape::ValueId id) const { return places_[static_cast<size_t>(id)]; }
  static bool where_retained(const Place& place) { return place.presence && place.presence->retained; }
  bool is_unchanged(tape::ValueId id, const c10::Storage& storage) const;
  bool was_written_through_a_pointer(tape::ValueId id) const;
  void count_kept(tape::ValueId id, int32_t change);
  void retain(tape::ValueId id, c10::Storage storage, int32_t claims);
  void copy(tape::ValueId id, const c10::Storage& storage);
  void lose(tape::ValueId id, bool needed);
  void wake(Holding& holding);
  void drop_unused_form(tape::ValueId id);
  void taint_before_use(tape::ValueId id);
  void taint();
  void taint(tape::ValueId id);
  bool secure(tape::ValueId id);
  std::vector<bool> ancestors(std::vector<tape::ValueId> open) const;
  std::vector<tape::ValueId> needed_by_holders(bool dropped_only) const;
  void find_living(std::vector<tape::ValueId>& roots);
  void check_books() const;

  tape::Tape tape_;
  std::deque<Place> places_;                   // by value
  mutable std::vector<uint32_t> verified_in_;  // by value, as far as any was: the last backward that compared its bytes
  std::vector<tape::ValueId> kept_;
  std::vector<tape::ValueId> retained_;  // some of them settled by now
  size_t next_prune_ = 1024;             // when there are so many of them
  int64_t epoch_ = 0;                    // counts release_retained(): claims from before the last one are void
  int64_t num_pinned_forms_ = 0;
  std::vector<tape::ValueId> pinned_forms_;  // some of them unpinned by now
  std::unordered_set<Holder*> holders_;
  std::vector<int32_t> living_;       // storages that were alive when last looked at
  int32_t storages_seen_ = 0;         // those after are alive, or were never looked at
  std::vector<tape::ValueId> owned_;  // values that are or were held or copied
  int64_t num_dropped_ = 0;           // as long as there are any, replay may be asked for
  int64_t drop_changes_ = 0;
  int64_t needed_at_ = -1;               // drop_changes_ when needed_ was found
  std::vector<bool> needed_;             // by those who hold nothing
  tape::OpId taint_from_ = tape::kNone;  // values were lost that ops from here on may have read
  tape::ValueId taint_before_ = 0;       // and from which values before this one may have been computed
  size_t next_sweep_ = 0;                // when there are so many ops
  bool has_loose_ = false;               // constants were read that are not held
  int ops_in_flight_ = 0;
  bool copies_sources_ = false;
};

}  // namespace encore::store
