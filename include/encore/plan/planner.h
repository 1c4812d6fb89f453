// The planner: the least time within a byte budget, and how far from the least possible it can be.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <encore/export.h>
#include <encore/plan/chain.h>
#include <encore/plan/graph.h>
#include <encore/plan/schedule.h>

namespace encore::plan {

/// What a figure of the certificate is.
enum class Proof : uint8_t {
  kExact,  ///< The true value (for chains: over persistent schedules).
  kBound,  ///< The true value isn't on the wrong side of it.
};

struct PlanOptions {
  /// Work of the local search, in units of about a million elementary operations. The clock plays no part, so the same
  /// input and options give the same plan. More is never slower. 0: constructive methods only; negative: chosen by the
  /// size of the graph.
  int64_t effort = -1;
  /// States that the exact search of small graphs may visit before it gives up; 0 switches it off.
  int64_t exact_states = 200'000;
  /// Chains only: exact to the byte at whatever cost.
  bool exact = false;
  /// Graphs only: search for the least feasible budget even if the plain run keeps this one.
  bool minimum = true;
  /// Graphs only: the search goes on for so long. The plan then depends on the clock, and is never slower than without.
  double seconds = 0;
  /// Called now and then with the part done, 0 to 1. May be empty.
  std::function<void(double)> progress;
};

/// An answer and its certificate. All schedules are in order: first computations as in the graph.
struct Plan {
  bool feasible = false;  ///< Whether `schedule` is there and keeps the budget.
  Schedule schedule;
  double time = 0;
  int64_t peak_bytes = 0;
  int64_t budget_bytes = 0;
  double baseline_time = 0;
  int64_t baseline_peak_bytes = 0;
  /// No schedule within the budget takes less time.
  double lower_bound_time = 0;
  Proof lower_bound_proof = Proof::kBound;
  /// The least budget that plan() accepts with these options: for any less it refuses.
  int64_t min_feasible_bytes = 0;
  Proof min_feasible_proof = Proof::kBound;
  /// No schedule at all has a lower peak.
  int64_t min_bytes_lower_bound = 0;
  std::string method;  ///< Which way found the schedule.
  /// Graphs only: the step and the values that make the budget too small, in words. Empty if it isn't.
  std::string refusal;
};

/// Plans within `budget_bytes`. A larger budget never gets a slower plan. Throws InvalidArgument if the graph doesn't
/// pass check() or the budget is negative. A budget that is too small is an answer, not an error: `feasible` is false
/// and `min_feasible_bytes` says what would do.
ENCORE_API Plan plan(const Graph& graph, int64_t budget_bytes, const PlanOptions& options = {});
/// The schedule is for to_graph(chain).
ENCORE_API Plan plan(const Chain& chain, int64_t budget_bytes, const PlanOptions& options = {});

/// A plan in a small part of the time that plan() takes, and slower than that one by some percent: to be followed until
/// it is there. May find none where plan() finds one. `min_feasible_bytes` is its own peak, no least budget.
ENCORE_API Plan sketch(const Graph& graph, int64_t budget_bytes);

/// "80%" of the baseline's peak, or bytes as parse_bytes() reads them. Throws InvalidArgument naming the text.
ENCORE_API int64_t parse_budget(std::string_view text, int64_t baseline_peak_bytes);

}  // namespace encore::plan
