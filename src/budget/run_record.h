// What a budget remembers of its steps, to be shown.
#pragma once

#include <deque>

#include <encore/budget.h>

#include "budget/itinerary.h"
#include "report/run.h"

namespace encore::budget {

/// The step that is shown in detail.
struct ShownStep {
  int64_t index = -1;
  int64_t resting_bytes = 0;
  std::shared_ptr<const Itinerary> plan;
  Journal journal;
};

class RunRecord {
 public:
  void add(const StepReport& step, double loss);
  /// Keeps the step's details; the last one shown wins.
  void show(ShownStep shown) { shown_ = std::move(shown); }

  /// Of the step that is shown; empty if none was planned.
  std::string graph_json() const;

  report::Run run(std::string_view name, const std::vector<RunSystem>& systems) const;

 private:
  double shown_seconds() const;

  std::deque<report::RunStep> steps_;  // bounded: the oldest go first
  int64_t limit_bytes_ = -1;
  int64_t resting_bytes_ = -1;
  int64_t process_bytes_ = -1;
  int64_t book_bytes_ = -1;
  ShownStep shown_;
};

}  // namespace encore::budget
