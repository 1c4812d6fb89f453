// Training inside a budget, which is what Encore is for.
#pragma once

#include <encore/budget.h>

#include "models.h"

namespace demo {

/// Trains a new model, every step within `budget`, and says how it goes. Throws encore::BudgetError if a step can't
/// fit.
void train(const Subject& subject, int64_t steps, encore::MemoryBudget& budget);

}  // namespace demo
