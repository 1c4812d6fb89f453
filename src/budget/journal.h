// What one training step did, event by event: the ground for planning the next one.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

#include <c10/util/flat_hash_map.h>

#include "store/residency.h"

namespace encore::budget {

/// An op of the tape, or a node of backward.
struct Event {
  bool backward = false;
  tape::OpId op = tape::kNone;  // of forward events
  const tape::OpInfo* info = nullptr;
  std::string node;   // of backward events
  uint64_t path = 0;  // hash of all events up to this one: what they did, to which values, in which shapes
  int64_t start_ns = 0;
  int64_t duration_ns = 0;   // without replays and evictions
  int64_t away_ns = 0;       // that those took while it ran
  int64_t live_peak = 0;     // of all accounts, since the event before
  int64_t other_before = 0;  // Account::kOther when it began, and at most while it ran
  int64_t other_peak = 0;
  c10::SmallVector<tape::ValueId, 4> asked;  // backward: what it unpacked
};

/// Something that took time besides the step's own events.
struct Interlude {
  const char* what;  // "replay", "evict", "pack"
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
};

/// A value in a smaller form.
struct Packing {
  std::string_view form;
  int64_t bytes = 0;
  int64_t duration_ns = 0;
};

struct Journal {
  std::vector<Event> events;
  std::vector<Interlude> interludes;
  int64_t start_ns = 0;
  /// Storages of which nobody but autograd held the bytes any more, with the event by whose end that was so.
  ska::flat_hash_map<int32_t, int32_t> released;
  /// Storages, by the tape's numbers, whose bytes are in Account::kTracked, with the event that made them.
  ska::flat_hash_map<int32_t, int32_t> tracked;
  /// Values that were put into a smaller form, or could have been.
  std::unordered_map<tape::ValueId, Packing> packings;
  int64_t other_at_start = 0;
  /// Bytes of Account::kOther that were allocated in the step and are there at its end, by event.
  std::vector<int64_t> births;
  /// Tracked storages that the user's own code holds at the end, such as the state of an optimizer.
  std::unordered_set<int32_t> kept;
  bool plannable = true;  // false if something happened that a plan can't tell again

  uint64_t signature() const { return events.empty() ? 0 : events.back().path; }
};

/// Stands for the value in a sum over all that a backward asks for.
uint64_t token_of(tape::ValueId value);

/// The path after a forward event.
uint64_t extend_path(uint64_t path, const tape::Tape& tape, tape::OpId op);
/// The path after a backward event.
uint64_t extend_path(uint64_t path, const Event& event);

}  // namespace encore::budget
