// Small joint forward and backward graphs of several families, for comparison with exact methods.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <encore/plan/graph.h>

namespace encore::plan::bench {

/// Numbers that are the same on every machine.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  /// From low to high, both included.
  int32_t roll(int32_t low, int32_t high) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return low + static_cast<int32_t>((state_ >> 33) % static_cast<uint64_t>(high - low + 1));
  }

 private:
  uint64_t state_;
};

/// Appends the backward of forward steps: one step for each, which reads the gradients of the step's users, the step's
/// inputs and, for some, its own value.
inline Graph with_backward(std::vector<Step> forward, Dice* dice) {
  Graph graph;
  graph.steps = std::move(forward);
  const auto n = static_cast<int32_t>(graph.steps.size());
  std::vector<int32_t> gradient(n, -1);
  for (int32_t i = n - 1; i >= 0; --i) {
    const Step own = graph.steps[i];
    Step step{"grad" + std::to_string(i), own.time * dice->roll(1, 3), own.bytes, dice->roll(0, 3), own.inputs, {}};
    if (dice->roll(0, 1) == 1 || i == n - 1) {
      step.inputs.push_back(i);
    }
    for (int32_t user = i + 1; user < n; ++user) {
      const auto& reads = graph.steps[user].inputs;
      if (std::find(reads.begin(), reads.end(), i) != reads.end()) {
        step.inputs.push_back(gradient[user]);
      }
    }
    gradient[i] = static_cast<int32_t>(graph.steps.size());
    graph.steps.push_back(std::move(step));
  }
  graph.outputs = {gradient[0]};
  return graph;
}

inline const std::vector<std::string>& small_families() {
  static const std::vector<std::string> kNames = {"layered", "vgg", "residual", "unet", "skips"};
  return kNames;
}

/// A graph of 2 * length steps.
inline Graph small_graph(const std::string& family, int32_t length, uint64_t seed) {
  Dice dice(seed * 1000003 + static_cast<uint64_t>(length));
  for (int k = 0; k < 4; ++k) {
    dice.roll(0, 1);
  }
  std::vector<Step> steps;
  for (int32_t i = 0; i < length; ++i) {
    Step step{
        "f" + std::to_string(i), static_cast<double>(dice.roll(1, 10)), dice.roll(2, 20), dice.roll(0, 4), {}, {}};
    if (i > 0) {
      step.inputs.push_back(i - 1);
    }
    if (family == "vgg") {
      step.bytes = std::max(2, 24 - 20 * i / length + dice.roll(-2, 2));  // Large and cheap first, small and dear last.
      step.time = i % 3 == 2 ? 1 : 3 + i;
    } else if (family == "residual" && i >= 3 && i % 3 == 0) {
      step.inputs.push_back(i - 3);
    } else if (family == "unet") {
      const int32_t mirror = length - 1 - i;
      step.bytes = 4 + 4 * std::max(0, std::abs(2 * i - length + 1) / 2) + dice.roll(0, 2);
      if (mirror < i - 1) {
        step.inputs.push_back(mirror);
      }
    } else if (family == "skips" && i >= 2 && dice.roll(0, 1) == 1) {
      step.inputs.push_back(dice.roll(0, i - 2));
    } else if (family == "layered" && i >= 2) {
      // Layers of two; each reads one or both of the layer before.
      const int32_t before = (i / 2 - 1) * 2;
      step.inputs = {before + dice.roll(0, 1)};
      if (dice.roll(0, 1) == 1) {
        step.inputs = {before, before + 1};
      }
      if (i == length - 1) {
        step.inputs = {i - 1, before, before + 1};
      }
    } else if (family == "layered") {
      step.inputs.clear();
    }
    std::sort(step.inputs.begin(), step.inputs.end());
    step.inputs.erase(std::unique(step.inputs.begin(), step.inputs.end()), step.inputs.end());
    steps.push_back(std::move(step));
  }
  return with_backward(std::move(steps), &dice);
}

}  // namespace encore::plan::bench
