// Messages with the figures that help.
#include "budget/refusals.h"

#include <encore/bytes.h>
#include <encore/error.h>
#include <encore/plan/planner.h>

namespace encore::budget {
namespace {

struct AtThePeak {
  int64_t all_bytes = 0;
  int64_t values_bytes = 0;  // that could be dropped and had again
};

/// The fullest moment of the step without Encore.
AtThePeak plain_peak(const plan::Graph& graph) {
  std::vector<int32_t> last_use(graph.steps.size());
  for (size_t i = 0; i < graph.steps.size(); ++i) {
    last_use[i] = std::max(static_cast<int32_t>(i), graph.steps[i].held_until);
    for (const int32_t input : graph.steps[i].inputs) {
      last_use[static_cast<size_t>(input)] = std::max(last_use[static_cast<size_t>(input)], static_cast<int32_t>(i));
    }
  }
  std::vector<int64_t> freed(graph.steps.size() + 1, 0);
  AtThePeak peak;
  int64_t values = 0;
  for (size_t i = 0; i < graph.steps.size(); ++i) {
    values += graph.steps[i].bytes - freed[i];
    freed[static_cast<size_t>(last_use[i]) + 1] += graph.steps[i].bytes;
    const int64_t all = values + graph.steps[i].background_bytes + graph.steps[i].temp_bytes;
    if (all > peak.all_bytes) {
      peak = {all, values};
    }
  }
  return peak;
}

}  // namespace

std::string exact_bytes(int64_t bytes) {
  return format_bytes(bytes) + " (" + std::to_string(bytes) + " bytes)";
}

void refuse_resting(int64_t resting_bytes, int64_t limit_bytes, int64_t other_threads_bytes) {
  BudgetError::Figures figures;
  figures.needed_bytes = figures.least_bytes = resting_bytes;
  figures.limit_bytes = limit_bytes;
  figures.other_threads_bytes = other_threads_bytes;
  std::string message = "budget: tensors that rest already take " + exact_bytes(resting_bytes) + ", the budget is " +
                        exact_bytes(limit_bytes);
  if (other_threads_bytes > 0) {
    message += "; other threads (a data loader's, for example) hold " + format_bytes(other_threads_bytes) + " of it";
  }
  throw BudgetError(message + "; raise it", figures);
}

void refuse_batch(int64_t batch, int64_t least_bytes, int64_t limit_bytes) {
  BudgetError::Figures figures;
  figures.least_bytes = least_bytes;
  figures.limit_bytes = limit_bytes;
  figures.least_is_known = true;
  throw BudgetError("budget: a batch of " + std::to_string(batch) + " needs at least " + exact_bytes(least_bytes) +
                        ", the budget is " + exact_bytes(limit_bytes) + "; raise it or begin with a smaller batch",
                    figures);
}

std::string text_of_unplanned(const KnownStep& step, int64_t limit_bytes, int64_t resting_bytes) {
  constexpr int64_t kMostOfIt = 4;
  std::string message = "no plan for a step like the last one is known below " + exact_bytes(step.least_bytes) +
                        ", the budget is " + exact_bytes(limit_bytes) + "; the op that needs most is " +
                        step.model->largest;
  const AtThePeak peak = plain_peak(step.model->graph_for(resting_bytes));
  if (peak.values_bytes < peak.all_bytes / kMostOfIt) {
    message += "; activations are only " + format_bytes(peak.values_bytes) + " of the " + format_bytes(peak.all_bytes) +
               " that it takes without a limit, the rest is parameters, gradients, optimizer state and temporaries";
  }
  return message;
}

std::string text_of_held(const std::map<std::string, int64_t>& bytes_by_op) {
  constexpr size_t kMostOps = 3;
  std::vector<std::pair<int64_t, std::string>> sorted;
  int64_t all_bytes = 0;
  for (const auto& [op, nbytes] : bytes_by_op) {
    sorted.emplace_back(nbytes, op);
    all_bytes += nbytes;
  }
  std::sort(sorted.rbegin(), sorted.rend());
  std::string text = "; your own code holds " + format_bytes(all_bytes) + " of it (";
  for (size_t i = 0; i < std::min(sorted.size(), kMostOps); ++i) {
    text += (i > 0 ? ", " : "") + format_bytes(sorted[i].first) + " made by " + sorted[i].second;
  }
  return text + "), which could be given up if variables, lists and long expressions let go of it";
}

std::string text_of(const Refusal& refusal) {
  const BudgetError::Figures& figures = refusal.figures;
  std::string message = "budget: an allocation of " + format_bytes(refusal.nbytes) +
                        (figures.op.empty() ? "" : " in " + figures.op) + " needs " +
                        exact_bytes(figures.needed_bytes) + " in all, the budget is " +
                        exact_bytes(figures.limit_bytes) + ", and nothing is left that could be given up";
  if (refusal.to_come_bytes > 0) {
    message += "; of that " + format_bytes(refusal.to_come_bytes) +
               " are still to come: what an optimizer makes for one parameter it makes for all";
  }
  if (figures.least_is_known) {
    message += "; " + refusal.unplanned;
  }
  message += refusal.held;
  if (refusal.left_plan_at) {
    message += "; the step had left its plan at " + *refusal.left_plan_at;
  }
  if (figures.other_threads_bytes > refusal.shortage_bytes / 2) {
    message += "; other threads (a data loader's, for example) hold " + format_bytes(figures.other_threads_bytes);
  }
  message += figures.least_is_known ? "; raise the budget to " + exact_bytes(figures.least_bytes)
                                    : "; up to here it takes " + exact_bytes(figures.least_bytes) +
                                          " without a limit: raise the budget to that";
  return message + ", or lower the batch. When the step has ended, " + refusal.put_back;
}

}  // namespace encore::budget
