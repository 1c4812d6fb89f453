// Writes the journal of a step as it happens.
#pragma once

#include "budget/journal.h"
#include "run/meter.h"

namespace encore::budget {

/// Of one step. Callers hold the tape's lock, but for begin() and end(). Events are of the step's own thread.
class JournalWriter {
 public:
  /// Storages below `smallest_bytes` are left where they are.
  explicit JournalWriter(int64_t smallest_bytes) : smallest_bytes_(smallest_bytes) {}

  void begin();
  void end();
  /// At the end: which storages the user's own code holds.
  void note_kept(const store::Residency& residency);

  /// Between two events, with what is live now. Time away is that of the next event from here on.
  void between_events(const run::Meter::Live& live);
  void op_begins(const tape::OpInfo& info) { op_now_ = &info; }
  void op_ended(const tape::Tape& tape, tape::OpId op);
  /// True for an outermost node, of which the others are part. Its time begins when it runs.
  bool node_begins(const char* name);
  void node_runs();
  bool node_ended(const tape::Tape& tape);
  bool in_node() const { return depth_ > 0; }
  /// In a node `asked` is part of the event; elsewhere, as an op in a node, it is what no plan can tell again.
  void asked(tape::ValueId value) { node_.asked.push_back(value); }
  void is_not_plannable() { journal_.plannable = false; }

  /// The tracked values that were left to autograd since the last call, by the end of event `event`.
  std::vector<tape::ValueId> find_released(const store::Residency& residency, int32_t event);

  /// Something took time besides, which the event that it happened in is not charged for.
  void add_interlude(const Interlude& interlude) { journal_.interludes.push_back(interlude); }
  void away(int64_t ns) { away_ns_ += ns; }
  /// A replay: what was done for it has been counted already.
  void replayed(const Interlude& replay);
  void packed(tape::ValueId value, const Packing& packing) { journal_.packings[value] = packing; }

  const Journal& journal() const { return journal_; }
  size_t num_events() const { return journal_.events.size() + unwritten_; }
  /// An event of which nothing is written.
  void pass() { ++unwritten_; }
  /// What was made before this library was loaded is counted from the first op on that reads it.
  void count_outside_storages(const tape::Tape& tape);
  /// Moves the journal out, at the end.
  Journal take() { return std::move(journal_); }
  /// The op or node that runs now; the one whose result a replay makes again is told by the node that asked for it.
  std::string running() const;
  /// Bytes of tensors that ops read and no allocator of LibTorch's made.
  int64_t foreign_bytes() const { return foreign_bytes_; }

 private:
  void finish(Event event, const tape::Tape& tape);
  bool track_results(const tape::Tape& tape, tape::OpId op, int32_t event);

  const int64_t smallest_bytes_;
  Journal journal_;
  size_t unwritten_ = 0;  // events
  int64_t other_now_ = 0;
  int64_t away_ns_ = 0;         // replays and evictions since the event began
  std::vector<int32_t> loose_;  // tracked storages that the user's code may still hold
  size_t cursor_ = 0;           // of the older ones of them
  int depth_ = 0;               // of nodes
  Event node_;
  const tape::OpInfo* op_now_ = nullptr;  // that runs, or ran last
  int32_t storages_seen_ = 0;
  int64_t foreign_bytes_ = 0;
};

/// Whether somebody besides autograd holds the storage's bytes.
bool is_held_outside(const store::Residency& residency, const tape::StorageRecord& record);

}  // namespace encore::budget
