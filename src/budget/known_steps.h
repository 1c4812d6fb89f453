// What is known of the steps that a budget has seen: their models, their times, and plans for them.
#pragma once

#include <deque>

#include "budget/itinerary.h"

namespace encore::budget {

/// One kind of step.
struct KnownStep {
  std::shared_ptr<const StepModel> model;
  std::vector<std::vector<double>> seconds;             // samples of each step's time, by sample
  std::vector<std::shared_ptr<const Itinerary>> plans;  // for the model as it is, most recent last
  std::shared_ptr<const Itinerary> plan;                // to be followed; null: none fits, or none is needed yet
  int64_t planned_limit_bytes = -1;
  size_t planned_samples = 0;
  int64_t planned_resting_bytes = -1;
  int64_t least_bytes = -1;   // the least budget for which a plan is known, as of the last time one was made
  int64_t worked_bytes = -1;  // the least limit under which a step has ended well

  /// Whether no plan is known that fits.
  bool has_no_plan(int64_t limit_bytes) const { return plan == nullptr && planned_limit_bytes == limit_bytes; }
  /// Whether steps of this kind are known not to fit.
  bool is_refused(int64_t limit_bytes) const {
    return has_no_plan(limit_bytes) && (worked_bytes < 0 || limit_bytes < worked_bytes);
  }
};

/// Bounded: the kind of step that was seen least recently is forgotten first.
class KnownSteps {
 public:
  /// Adds what was learnt in a step that ended well.
  void learn(StepModel model, int64_t limit_bytes);
  /// The kind of step that was seen last, or null.
  KnownStep* latest() { return steps_.empty() ? nullptr : &steps_.front(); }
  /// A plan that fits the limit and whose event `index` has this path.
  std::shared_ptr<const Itinerary> find_plan(size_t index, uint64_t path, int64_t limit_bytes) const;
  /// Makes a plan for the limit, unless there is one that is still good. Returns the seconds it took.
  static double prepare(KnownStep& step, int64_t limit_bytes, int64_t resting_bytes);

 private:
  std::deque<KnownStep> steps_;  // most recent first
};

}  // namespace encore::budget
