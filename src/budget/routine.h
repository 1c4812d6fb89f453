// Whether a step that is expected to be as it ever was is so.
#pragma once

#include "budget/step_model.h"

namespace encore::budget {

/// Of one step, under the tape's lock. All that is looked at in a step whose plan asks for nothing, and of whose kind
/// all is known: its ops, as they end, and what its backward asks for.
class Routine {
 public:
  /// The model outlives this.
  explicit Routine(const StepModel& expected) : expected_(expected) {}

  /// False from the first op on that was not expected.
  bool op_ended(const tape::Tape& tape, tape::OpId op);
  void asked(tape::ValueId value) { asked_ += token_of(value); }
  /// Whether the step, which has ended, did all that was expected.
  bool is_whole() const;
  /// Of what it did, as far as that was looked at.
  uint64_t signature() const { return is_whole() ? expected_.signature() : path_ ^ asked_; }

 private:
  size_t after_backward(size_t event) const;

  const StepModel& expected_;
  size_t next_ = 0;  // event
  uint64_t path_ = 0;
  uint64_t asked_ = 0;
  bool left_ = false;
};

}  // namespace encore::budget
