// Steps that can't begin within the limit, and what is said about it.
#pragma once

#include <string>

#include "budget/known_steps.h"

namespace encore::budget {

/// "10.6 MiB (11123456 bytes)": two figures that round to the same text still differ.
std::string exact_bytes(int64_t bytes);

/// What rests does not fit.
[[noreturn]] void refuse_resting(int64_t resting_bytes, int64_t limit_bytes, int64_t other_threads_bytes);

/// No plan is known for the step as it was last time.
[[noreturn]] void refuse_planned(const KnownStep& step, int64_t limit_bytes, int64_t resting_bytes);

}  // namespace encore::budget
