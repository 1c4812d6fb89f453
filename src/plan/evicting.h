// Starts from a run that makes room as it goes: the steps one after another, and where one does not fit, the values go
// that are missed least.
#pragma once

#include <cstdint>

#include "plan/stages.h"
#include "plan/worths.h"

namespace encore::plan {

/// What such a run did. Its schedule keeps the budget. Its recomputations as a table need not: there each runs once in
/// a stage.
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
