// What a call of a function read from outside and drew, as its tape tells.
#pragma once

#include <set>

#include "tape/random.h"
#include "tape/tape.h"

namespace encore::region {

/// Two calls that differ in it did not compute the same, even where shapes are alike: a captured tensor was replaced,
/// or a module went from training to evaluation.
class CallPath {
 public:
  /// Of the call that is ops `first` .. `last` - 1 of `tape`.
  CallPath(const tape::Tape& tape, tape::OpId first, tape::OpId last);

  /// How another call, recorded on `again` alone, differs up to the op that is `end` ops into this one; empty if it
  /// does not. Reads are left out where autocast decides what is cast inside.
  std::string difference(const tape::Tape& again, tape::OpId end, bool compare_reads) const;

 private:
  struct Read {
    tape::OpId op;  // how far into the call
    tape::ValueId value;
    const c10::StorageImpl* storage;
    std::optional<tape::Fingerprint> bytes;
  };
  struct Draw {
    tape::OpId op;
    const tape::OpInfo* info;
    std::shared_ptr<const tape::RandomState> before;
  };

  bool is_lazily_made(const Read& read) const { return made_.count(read.storage) > 0; }
  static bool same_bytes(const Read& then, const Read& now);

  std::vector<Read> reads_;  // the first of each value
  std::vector<Draw> draws_;
  std::set<const c10::StorageImpl*> made_;  // by the call itself
};

}  // namespace encore::region
