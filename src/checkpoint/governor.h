// Decides what stays in memory where a policy, which sees one value at a time, can't.
#pragma once

#include "tape/tape.h"

namespace encore {

/// Told of all that happens to the values of one region, under the tape's lock. It lets go of values, and brings them
/// back ahead of time, by the region's own calls.
class Governor {
 public:
  virtual ~Governor() = default;

  /// An op is on the tape, with what autograd saved of it.
  virtual void recorded(tape::OpId op) = 0;
  /// An op is about to run.
  virtual void starts(const tape::PendingOp& op) = 0;
  /// A backward is about to add to the leaf's gradient. Not under the tape's lock.
  virtual void accumulates_into(const at::Tensor& leaf) = 0;
  /// Backward asks for the value; if it is not in memory it is brought back next.
  virtual void asked(tape::ValueId value) = 0;
  /// Values came back.
  virtual void replayed(int64_t ops, int64_t start_ns, int64_t duration_ns) = 0;
  /// True if a value that came back stays until the governor lets go of it, false if only until everybody who waits for
  /// it has had it.
  virtual bool holds_what_came_back() const = 0;
  /// A value came by that nobody waits for: is it to be held for later, until the governor lets go of it?
  virtual bool wants(tape::ValueId value) const = 0;
  /// The ops from `first` to the last one so far are a checkpoint: what they made is meant to be recomputed.
  virtual void hint(tape::OpId first) = 0;
};

}  // namespace encore
