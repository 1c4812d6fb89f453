// What became of each value by a plan.
#pragma once

#include <encore/budget.h>

#include "budget/itinerary.h"

namespace encore::budget {

std::vector<ValueReport> values_of(const Itinerary& plan);

/// What the user's own code holds in vain where the plan needs most, by op and module, largest first.
std::vector<ValueReport> held_at_peak(const Itinerary& plan, int64_t resting_bytes);

}  // namespace encore::budget
