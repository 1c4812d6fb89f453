// Starts from a run that makes room as it goes: the steps one after another, and where one does not fit, the values go
// that are missed least.
#pragma once

#include <cstdint>

#include "plan/stages.h"

namespace encore::plan {

/// What a value that is in memory is worth: the time to have it again, with what is gone around it, for each byte, and
/// for each step until it is read next (or since it was used last).
struct Worth {
  double distance = 1;        ///< Power of the distance.
  double around = 1;          ///< How much what is gone around a value counts.
  bool deep = true;           ///< Counts what the plain run no longer has either when the value is read next.
  bool look_back = false;     ///< The distance is the time since the last use, as for one who doesn't know the future.
  bool latest_first = false;  ///< Of several inputs that are gone, the latest comes back first.
};

/// What such a run did. Its schedule keeps the budget. Its recomputations as a table need not: there they run in the
/// order of the steps, and each once in a stage.
struct EvictingRun {
  bool done = false;  ///< False if it got stuck or came to its limit of work; then nothing else holds.
  double extra_time = 0;
  Schedule schedule;
  Stages::Table table;
};

/// `work` is counted on.
EvictingRun run_evicting(const Compact& graph, double budget, const Worth& worth, int64_t max_work, int64_t* work);

/// Leaves out recomputations that `budget`, which the run keeps, doesn't need.
void tidy(const Compact& graph, double budget, int64_t max_work, EvictingRun* run);

}  // namespace encore::plan
