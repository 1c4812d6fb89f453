// Steps that can't begin within the limit, and what is said about it.
#pragma once

#include <string>

#include "budget/known_steps.h"

namespace encore::budget {

/// "10.6 MiB (11123456 bytes)": two figures that round to the same text still differ.
std::string exact_bytes(int64_t bytes);

/// What rests does not fit.
[[noreturn]] void refuse_resting(int64_t resting_bytes, int64_t limit_bytes, int64_t other_threads_bytes);

/// Steps of a batch that ran, but for which there is no plan.
[[noreturn]] void refuse_batch(int64_t batch, int64_t least_bytes, int64_t limit_bytes);

/// What is to be said where a step is refused that is as the last one so far, and no plan is known for that: the budget
/// for which one is known, and what there is to be saved.
std::string text_of_unplanned(const KnownStep& step, int64_t limit_bytes, int64_t resting_bytes);

}  // namespace encore::budget
