// Why a budget is too small, in words.
#pragma once

#include <cstdint>
#include <string>

#include <encore/plan/graph.h>
#include <encore/plan/schedule.h>

namespace encore::plan {

/// Names the step that can't run within the budget and what it reads; or, if each step alone can, the step at the peak
/// of `lowest`, which has the lowest peak that is known, and what is in memory then.
std::string explain_refusal(const Graph& graph, int64_t budget_bytes, const Schedule& lowest);

}  // namespace encore::plan
