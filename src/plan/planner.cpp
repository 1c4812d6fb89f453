// Chooses the way for a problem and makes the certificate.
#include <encore/plan/planner.h>

#include <algorithm>
#include <cmath>

#include <encore/bytes.h>
#include <encore/error.h>
#include <encore/plan/simulate.h>

#include "base/plain_numbers.h"
#include "plan/bounds.h"
#include "plan/ladder.h"
#include "plan/refusal.h"

namespace encore::plan {
namespace {

void accept(const Graph& graph, Schedule schedule, const char* method, Plan* plan) {
  const Cost cost = simulate(graph, schedule);
  if (cost.peak_bytes > plan->budget_bytes) {
    throw Error("planner: the schedule needs " + std::to_string(cost.peak_bytes) + " bytes, the budget is " +
                std::to_string(plan->budget_bytes) + "; this is a bug in Encore");
  }
  plan->feasible = true;
  plan->schedule = std::move(schedule);
  plan->time = cost.time;
  plan->peak_bytes = cost.peak_bytes;
  plan->method = method;
}

}  // namespace

Plan plan(const Graph& graph, int64_t budget_bytes, const PlanOptions& options) {
  check(graph);
  if (budget_bytes < 0) {
    throw InvalidArgument("planner: the budget is " + std::to_string(budget_bytes) + "; it must not be negative");
  }
  const Compact compact(graph);
  const Baseline base = baseline(graph);
  Plan plan;
  plan.budget_bytes = budget_bytes;
  plan.baseline_time = base.time;
  plan.baseline_peak_bytes = base.peak_bytes;
  plan.lower_bound_time = base.time;
  plan.min_bytes_lower_bound = least_peak(compact);
  const bool plain = base.peak_bytes <= budget_bytes;
  if (plain) {
    accept(graph, plain_schedule(compact), "plain", &plan);
    plan.lower_bound_proof = Proof::kExact;
    plan.min_feasible_bytes = plan.peak_bytes;
    if (!options.minimum) {
      return plan;
    }
  }
  Ladder ladder(graph, compact, options);
  plan.min_feasible_bytes = ladder.least_bytes();
  plan.min_feasible_proof = ladder.least_is_exact() ? Proof::kExact : Proof::kBound;
  plan.min_bytes_lower_bound = ladder.least_bound();
  if (!plain && budget_bytes >= ladder.least_bytes()) {
    Ladder::Found found = ladder.best_within(budget_bytes);
    accept(graph, std::move(found.schedule), found.method, &plan);
    plan.lower_bound_time = std::min(base.time + ladder.bound(budget_bytes), plan.time);
    if (found.proven) {
      plan.lower_bound_proof = Proof::kExact;
    }
  }
  if (!plan.feasible) {
    plan.refusal = explain_refusal(graph, budget_bytes, ladder.lowest_schedule());
  }
  return plan;
}

Plan plan(const Chain& chain, int64_t budget_bytes, const PlanOptions& options) {
  check(chain);
  if (budget_bytes < 0) {
    throw InvalidArgument("planner: the budget is " + std::to_string(budget_bytes) + "; it must not be negative");
  }
  const Graph graph = to_graph(chain);
  if (chain.stages.size() > 1000) {
    return plan(graph, budget_bytes, options);
  }
  ChainOptions chain_options;
  chain_options.exact = options.exact;
  const auto margin = static_cast<int64_t>(static_cast<double>(budget_bytes) * (1 + 2 * chain_options.max_rounding));
  chain_options.max_bytes = std::max<int64_t>(1, std::max(margin, budget_bytes));
  const ChainSolution solution = solve(chain, chain_options);
  const Baseline base = baseline(graph);
  Plan result;
  result.budget_bytes = budget_bytes;
  result.baseline_time = base.time;
  result.baseline_peak_bytes = base.peak_bytes;
  result.min_feasible_bytes = solution.min_feasible_bytes();
  result.min_feasible_proof = Proof::kExact;
  result.min_bytes_lower_bound = solution.min_feasible_bytes();
  result.lower_bound_time = base.time;
  if (budget_bytes < solution.min_feasible_bytes()) {
    return result;
  }
  accept(graph, solution.schedule(budget_bytes), "chain", &result);
  result.lower_bound_time = result.time;
  result.lower_bound_proof = solution.rounding() == 0 ? Proof::kExact : Proof::kBound;
  for (const ChainPoint& point : solution.curve()) {
    if (static_cast<double>(point.bytes) <= static_cast<double>(budget_bytes) * (1 + solution.rounding())) {
      result.lower_bound_time = std::min(result.lower_bound_time, point.time);
    }
  }
  return result;
}

int64_t parse_budget(std::string_view text, int64_t baseline_peak_bytes) {
  if (text.empty() || text.back() != '%') {
    return parse_bytes(text);
  }
  const std::string number(text.substr(0, text.size() - 1));
  const bool plain = number.find_first_not_of("0123456789.") == std::string::npos && !number.empty() &&
                     std::count(number.begin(), number.end(), '.') <= 1 && number != ".";
  const PlainNumbers plain_numbers;
  const double percent = plain ? std::strtod(number.c_str(), nullptr) : NAN;
  if (!(percent >= 0 && percent <= 1e6)) {
    throw InvalidArgument("budget: '" + std::string(text) +
                          "' is not a percentage of the plain run's peak; write for example 80% or 512MiB");
  }
  const double bytes = std::floor(percent / 100 * static_cast<double>(baseline_peak_bytes));
  return bytes >= 0x1.0p63 ? INT64_MAX : static_cast<int64_t>(bytes);
}

}  // namespace encore::plan
