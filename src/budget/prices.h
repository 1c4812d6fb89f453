// What it costs to give a value up, for steps in which no plan says what to give up.
#pragma once

#include "tape/tape.h"

namespace encore::budget {

/// Whether the value's bytes are somewhere, so that an op could read them.
bool is_there(tape::Tape& tape, tape::ValueId value);

class Prices {
 public:
  /// The step has come to this op, forward or backward.
  void move_to(tape::OpId op) { position_ = op; }
  /// Ops `first` .. `last` - 1 are a checkpoint of the user's: meant to go first.
  void hint(tape::OpId first, tape::OpId last);

  /// Low for what is cheap to bring back, large, and not needed soon. Backward needs last what was made first.
  double of(tape::Tape& tape, tape::ValueId value);
  /// How many ops were looked at since the last call.
  size_t take_work() { return std::exchange(work_, 0); }

 private:
  tape::OpId position_ = 0;
  double replay_ns_of(tape::Tape& tape, tape::ValueId value);

  std::vector<char> hinted_;  // by op
  // Of the search for what must come back for a value, which is done for very many.
  std::vector<uint32_t> seen_;  // by op: the search that came by last
  uint32_t search_ = 0;
  size_t work_ = 0;
  std::vector<tape::ValueId> open_;
};

}  // namespace encore::budget
