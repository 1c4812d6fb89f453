// Runs recorded ops again to bring values back.
#pragma once

#include "store/residency.h"

namespace encore::run {

struct ReplayRequest {
  /// Ops before this one are not run: what they made is asked of `enter`.
  tape::OpId first = 0;
  std::vector<tape::ValueId> targets;
  /// The bytes of a value made before `first` that is not resident.
  std::function<c10::Storage(tape::ValueId)> enter;
  /// True for values worth holding on to when they come by.
  std::function<bool(tape::ValueId)> wanted;
  /// Takes a target or a wanted value as soon as it is there. What is taken may be given up again while the replay
  /// runs.
  std::function<void(tape::ValueId, const c10::Storage&)> take;
  /// Compare sizes, strides and types of what comes back with what was recorded.
  bool check_metadata = true;
};

struct Replayed {
  int64_t ops = 0;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
};

/// Brings the targets back: from the nearest resident values, only the ops needed, in tape order, below autograd, with
/// the random state of each op and the generator left as it was. The caller holds the tape's mutex.
/// Throws ReplayError (with the op), ChangedError, DeterminismError or, where a limit is kept, BudgetError; what was
/// taken until then is right.
Replayed replay(const store::Residency& residency, const ReplayRequest& request);

}  // namespace encore::run
