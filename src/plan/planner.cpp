// Chooses the way for a problem and makes the certificate.
#include <encore/plan/planner.h>

#include <algorithm>
#include <cmath>

#include <encore/bytes.h>
#include <encore/error.h>
#include <encore/plan/simulate.h>

#include "base/plain_numbers.h"
#include "plan/bounds.h"
#include "plan/exact.h"
#include "plan/search.h"

namespace encore::plan {
namespace {

constexpr int64_t kWorkUnit = 1'000'000;
constexpr int64_t kMinimumWork = 100 * kWorkUnit;  // Of the search for the least feasible budget.

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

int64_t effort_of(const PlanOptions& options, int32_t n) {
  if (options.effort >= 0) {
    return options.effort * kWorkUnit;
  }
  return (n <= 2000 ? 150 : 600) * kWorkUnit;
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
  plan.min_bytes_lower_bound = least_peak(compact);
  plan.lower_bound_time = base.time;
  const int64_t work = effort_of(options, compact.n);
  // The exact search doesn't know variants.
  const bool try_exact =
      options.exact_states > 0 &&
      std::all_of(graph.steps.begin(), graph.steps.end(), [](const Step& step) { return step.variants.empty(); });
  Stages lowest(compact, graph, static_cast<double>(base.peak_bytes));
  Schedule lowest_schedule;  // If the exact search has one; else `lowest` has it.
  const auto finish_minimum = [&] {
    if (!options.minimum && plan.feasible) {
      plan.min_feasible_bytes = plan.peak_bytes;
      return;
    }
    const auto exact = try_exact ? exact_min_budget(compact, options.exact_states) : std::nullopt;
    plan.min_bytes_lower_bound = exact.value_or(plan.min_bytes_lower_bound);
    // The least budget is only worth naming if it can be planned with.
    ExactAnswer answer;
    if (exact) {
      answer = exact_search(compact, *exact, options.exact_states);
    }
    if (answer.finished) {
      plan.min_feasible_bytes = *exact;
      lowest_schedule = std::move(answer.schedule);
    } else {
      const auto least = static_cast<double>(plan.min_bytes_lower_bound);
      plan.min_feasible_bytes = lower_peak(&lowest, least, kMinimumWork);
    }
    if (plan.feasible) {
      plan.min_feasible_bytes = std::min(plan.min_feasible_bytes, plan.peak_bytes);
    }
    if (plan.min_feasible_bytes == plan.min_bytes_lower_bound) {
      plan.min_feasible_proof = Proof::kExact;
    }
  };
  if (base.peak_bytes <= budget_bytes) {
    accept(graph, plain_schedule(compact), "plain", &plan);
    plan.lower_bound_proof = Proof::kExact;
    finish_minimum();
    return plan;
  }
  const double extra = least_extra_time(compact, graph, budget_bytes);
  if (extra < INFINITY) {
    plan.lower_bound_time = base.time + extra;
    ExactAnswer exact;
    if (try_exact) {
      exact = exact_search(compact, budget_bytes, options.exact_states);
    }
    if (exact.finished && exact.feasible) {
      accept(graph, std::move(exact.schedule), "exact search", &plan);
      plan.lower_bound_time = plan.time;
      plan.lower_bound_proof = Proof::kExact;
    } else if (!exact.finished) {
      plan.lower_bound_time = std::max(plan.lower_bound_time, base.time + exact.extra_time);
      Stages stages(compact, graph, static_cast<double>(budget_bytes));
      find_start(&stages, work);
      anneal(&stages, work, 1, options.progress);
      if (stages.stages_over() == 0) {
        accept(graph, stages.schedule(), "local search", &plan);
      }
    }
  }
  finish_minimum();
  if (!plan.feasible && plan.min_feasible_bytes <= budget_bytes && extra < INFINITY) {
    // What has the lowest peak got where the search at this budget didn't.
    if (lowest_schedule.empty()) {
      lowest.set_budget(static_cast<double>(budget_bytes));
      relax(&lowest, work);
      anneal(&lowest, work, 2, options.progress);
      lowest_schedule = lowest.schedule();
    }
    accept(graph, std::move(lowest_schedule), "from the lowest peak", &plan);
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
