// The handles of one region: by value, and all of them.
#pragma once

#include <deque>

#include <c10/util/flat_hash_map.h>

#include "tape/tape.h"

namespace encore {

class ReplayHandle;

/// Lists run through the handles themselves, so that a tensor that autograd saves costs no memory here. Callers hold
/// the tape's lock.
class HandleTable {
 public:
  struct Links {
    ReplayHandle* previous = nullptr;
    ReplayHandle* next = nullptr;
  };

  /// What handles have to do with a value.
  struct Stake {
    tape::ValueId value = tape::kNone;
    int32_t kept = 0;   // handles that hold its bytes
    int32_t place = 0;  // in kept_, if there are any
    bool counted = false;
    ReplayHandle* first = nullptr;
  };

  void add(ReplayHandle& handle);
  void remove(ReplayHandle& handle);
  /// The handle is about another value from here on.
  void move(ReplayHandle& handle, tape::ValueId to);

  /// The handle holds the value's bytes from here on, or does so no longer.
  void count_kept(ReplayHandle& handle, int32_t change);
  int32_t num_kept(tape::ValueId value) const;
  /// Of which a handle holds the bytes.
  std::vector<tape::ValueId> kept_values() const;

  /// True the first time: what became of the value is counted once.
  bool count_once(tape::ValueId value) { return !std::exchange(stake_of(value).counted, true); }
  bool is_counted(tape::ValueId value) const;
  void forget_count(tape::ValueId value) { stake_of(value).counted = false; }

  size_t size() const { return size_; }
  /// The value's handles as they are now; visitors may change the lists.
  c10::SmallVector<ReplayHandle*, 8> of(tape::ValueId value) const;
  /// Visits every handle; the visitor must not change the lists.
  template <class Visit>
  void for_each(const Visit& visit) const;
  /// Every value with a handle, in order.
  std::vector<tape::ValueId> values() const;
  /// True if one of the value's handles holds nothing.
  bool has_dropped(tape::ValueId value) const;

 private:
  const Stake* find(tape::ValueId value) const;
  Stake& stake_of(tape::ValueId value);
  void link(ReplayHandle& handle, Links ReplayHandle::*links, ReplayHandle*& first);
  void unlink(ReplayHandle& handle, Links ReplayHandle::*links, ReplayHandle*& first);

  std::deque<Stake> stakes_;  // handles know their own
  ska::flat_hash_map<tape::ValueId, Stake*> by_value_;
  std::vector<Stake*> kept_;  // of which a handle holds the bytes
  ReplayHandle* first_ = nullptr;
  size_t size_ = 0;
};

}  // namespace encore
