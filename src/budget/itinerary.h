// A plan in the form in which a running step follows it: what to drop and to bring back after each event.
#pragma once

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

struct Itinerary {
  std::shared_ptr<const StepModel> model;
  plan::Plan plan;
  double planning_seconds = 0;
  /// By event: what is done when it has ended.
  std::vector<std::vector<Errand>> after;
  int64_t units_dropped = 0;
  int64_t units_kept = 0;
  int64_t units_packed = 0;  // of those that are kept
};

/// `plan` is a feasible plan of the model's graph.
Itinerary make_itinerary(std::shared_ptr<const StepModel> model, plan::Plan plan);

}  // namespace encore::budget
