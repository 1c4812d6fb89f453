// A plan in the form in which a running step follows it: what to drop and to bring back after each event.
#pragma once

#include <algorithm>

#include <encore/plan/planner.h>

#include "budget/step_model.h"

namespace encore::budget {

enum class Do : uint8_t {
  kHold,     // keep the step's values although neither autograd nor the user's code does
  kCompute,  // bring them back, from their smaller form if they are in one
  kPack,     // hold them in a smaller form instead
  kDrop,     // let go of them, in whatever form they are
};

struct Errand {
  Do what = Do::kDrop;
  int32_t step = 0;
};

/// What a plan was searched for.
struct PlannedFor {
  int64_t limit_bytes = -1;
  int64_t resting_bytes = -1;
};

struct Itinerary {
  std::shared_ptr<const StepModel> model;
  plan::Plan plan;
  double planning_seconds = 0;
  int64_t resting_bytes = 0;  // of the start for which the plan's peak is known
  PlannedFor searched_for;    // a limit of -1: it is a sketch, or of a rehearsal
  /// By event: what is done when it has ended.
  std::vector<std::vector<Errand>> after;
  int64_t units_dropped = 0;
  int64_t units_kept = 0;
  int64_t units_packed = 0;  // of those that are kept

  /// Whether nothing is to be done but what happens without Encore: to let go of what nobody needs any more.
  bool asks_for_nothing() const;
  /// The most that it takes from another start: what rests more then may rest on its peak.
  int64_t peak_at(int64_t resting) const { return plan.peak_bytes + std::max<int64_t>(0, resting - resting_bytes); }
};

/// `plan` is a feasible plan of the model's graph.
Itinerary make_itinerary(std::shared_ptr<const StepModel> model, plan::Plan plan);

}  // namespace encore::budget
