// What a measured step foretells of one that begins with other bytes at rest.
#include <algorithm>

#include "budget/step_model.h"

namespace encore::budget {

int64_t StepModel::born_bytes() const {
  int64_t bytes = 0;
  for (const Born& here : born) {
    bytes += here.other_bytes + here.value_bytes;
  }
  return std::max<int64_t>(0, bytes);
}

int64_t StepModel::gradient_bytes() const {
  int64_t bytes = 0;
  for (const Born& here : born) {
    bytes += here.gradient_bytes;
  }
  return std::max<int64_t>(0, bytes);
}

plan::Graph StepModel::graph_for(int64_t resting) const {
  int64_t all_born = 0;
  for (const Born& here : born) {
    all_born += here.other_bytes + here.value_bytes;
  }
  // Gradients that rest now and will have gone when backward makes them anew.
  const int64_t going = gradients_go && resting - resting_bytes >= gradient_bytes() ? gradient_bytes() : 0;
  all_born -= going;
  // What rested before the measured step and was let go in it, but is not there now (gradients, after a refusal).
  const int64_t let_go = background.empty() ? 0 : -*std::min_element(background.begin(), background.end());
  const int64_t gone = std::clamp<int64_t>(resting_bytes - resting, 0, std::max<int64_t>(0, let_go));
  const int64_t stay_throughout = resting - going + gone;
  // Where something older died in its place (the last batch for this one), the earliest are the replacements.
  const int64_t replaced =
      all_born - std::clamp<int64_t>(stay_throughout - resting_bytes, 0, std::max<int64_t>(0, all_born));
  plan::Graph filled = graph;
  int64_t so_far = 0;
  int64_t rests = 0;   // of kOther, and was in the background
  int64_t passes = 0;  // of it, on its way to what rests
  for (size_t i = 0; i < filled.steps.size(); ++i) {
    const int64_t born_other = born[i].other_bytes - (going > 0 ? born[i].gradient_bytes : 0);
    const int64_t here = born_other + born[i].value_bytes;
    so_far += here;
    const int64_t stays = std::clamp<int64_t>(so_far - replaced, 0, std::max<int64_t>(0, here));
    const int64_t other = std::clamp<int64_t>(born_other, 0, stays);
    plan::Step& step = filled.steps[i];
    const int64_t gradients = going > 0 ? 0 : std::clamp<int64_t>(born[i].gradient_bytes, 0, other);
    const bool is_backward = std::binary_search(backward_steps.begin(), backward_steps.end(), static_cast<int32_t>(i));
    passes = is_backward && step.inputs.empty() ? passes : 0;
    step.background_bytes = std::max<int64_t>(0, stay_throughout + background[i] - rests + passes);
    // A gradient that rests is added to: another one is made first, as large, and lives until the nodes without
    // saved values behind it have run.
    passes += gradients;
    step.temp_bytes = std::max<int64_t>(0, step.temp_bytes - (other - gradients));
    step.bytes -= stays - other;
    rests += other;
  }
  return filled;
}

}  // namespace encore::budget
