// What became of each value by a plan.
#pragma once

#include <encore/budget.h>

#include "budget/itinerary.h"

namespace encore::budget {

std::vector<ValueReport> values_of(const Itinerary& plan);

}  // namespace encore::budget
