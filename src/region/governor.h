// Decides what stays in memory where a policy, which sees one value at a time, can't.
#pragma once

#include "record/stream.h"

namespace encore::region {

/// The subscriber of one region, and asked in place of its policy, under the tape's lock. It lets go of values, and
/// brings them back ahead of time, by the region's own calls.
class Governor : public record::Subscriber {
 public:
  /// True if a value that came back stays until the governor lets go of it, false if only until everybody who waits for
  /// it has had it.
  virtual bool holds_what_came_back() const = 0;
  /// A value came by that nobody waits for: is it to be held for later, until the governor lets go of it?
  virtual bool wants(tape::ValueId value) const = 0;
  /// The ops from `first` to the last one so far are a checkpoint: what they made is meant to be recomputed.
  virtual void hint(tape::OpId first) = 0;
};

}  // namespace encore::region
