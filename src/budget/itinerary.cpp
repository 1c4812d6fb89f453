// From a schedule over steps to errands after events.
#include "budget/itinerary.h"

#include <algorithm>

namespace encore::budget {
namespace {

/// By step: the step until which somebody holds its values anyway: the user's code, or autograd for a node that asks.
std::vector<int32_t> alive_until(const StepModel& model) {
  std::vector<int32_t> alive;
  for (size_t i = 0; i < model.graph.steps.size(); ++i) {
    alive.push_back(std::max(static_cast<int32_t>(i), model.graph.steps[i].held_until));
  }
  for (const int32_t node : model.backward_steps) {
    for (const int32_t input : model.graph.steps[static_cast<size_t>(node)].inputs) {
      alive[static_cast<size_t>(input)] = std::max(alive[static_cast<size_t>(input)], node);
    }
  }
  return alive;
}

Do what_is_done(plan::OpKind kind) {
  switch (kind) {
    case plan::OpKind::kDrop:
      return Do::kDrop;
    case plan::OpKind::kEncode:
      return Do::kPack;
    default:
      return Do::kCompute;
  }
}

}  // namespace

bool Itinerary::asks_for_nothing() const {
  return std::all_of(after.begin(), after.end(), [](const std::vector<Errand>& errands) {
    return std::all_of(errands.begin(), errands.end(), [](const Errand& errand) { return errand.what == Do::kDrop; });
  });
}

Itinerary make_itinerary(std::shared_ptr<const StepModel> model, plan::Plan plan) {
  Itinerary itinerary;
  const size_t num_steps = model->graph.steps.size();
  std::vector<int32_t> last_event(num_steps, -1);
  for (size_t e = 0; e < model->step_of_event.size(); ++e) {
    last_event[static_cast<size_t>(model->step_of_event[e])] = static_cast<int32_t>(e);
  }
  itinerary.after.resize(model->path.size());
  std::vector<char> seen(num_steps, 0);
  std::vector<char> again(num_steps, 0);
  std::vector<char> packed(num_steps, 0);
  std::vector<int32_t> first_left(num_steps, -1);  // the step after which its values are first let go of
  int32_t done = -1;                               // the last step that has run for the first time
  for (const plan::Op& op : plan.schedule) {
    const auto step = static_cast<size_t>(op.step);
    if (op.kind == plan::OpKind::kCompute && seen[step] == 0) {
      seen[step] = 1;
      done = op.step;
      continue;
    }
    if (done >= 0 && !model->units[step].values.empty()) {
      const Do what = what_is_done(op.kind);
      itinerary.after[static_cast<size_t>(last_event[static_cast<size_t>(done)])].push_back({what, op.step});
      again[step] = again[step] != 0 || op.kind == plan::OpKind::kCompute ? 1 : 0;
      packed[step] = packed[step] != 0 || what == Do::kPack ? 1 : 0;
      if (what != Do::kCompute && first_left[step] < 0) {
        first_left[step] = done;
      }
    }
  }
  const std::vector<int32_t> alive = alive_until(*model);
  for (size_t i = 0; i < num_steps; ++i) {
    if (!model->units[i].values.empty() && first_left[i] > alive[i]) {
      auto& errands = itinerary.after[static_cast<size_t>(last_event[i])];
      errands.insert(errands.begin(), {Do::kHold, static_cast<int32_t>(i)});
    }
  }
  for (size_t i = 0; i < num_steps; ++i) {
    if (!model->units[i].values.empty()) {
      ++(again[i] != 0 ? itinerary.units_dropped : itinerary.units_kept);
      itinerary.units_packed += again[i] == 0 && packed[i] != 0 ? 1 : 0;
    }
  }
  itinerary.model = std::move(model);
  itinerary.plan = std::move(plan);
  return itinerary;
}

}  // namespace encore::budget
