// Runs a few steps in each way and compares.
#include "compare.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <encore/bytes.h>
#include <encore/error.h>
#include <encore/memory.h>

#include "progress.h"
#include "trainer.h"

namespace demo {
namespace {

// The first step makes gradients and Adam's state, the second shows a budget what all others are like, and the third
// makes it plan.
constexpr int64_t kLearning = 2;
constexpr int64_t kWarmUps = kLearning + 1;
constexpr int64_t kMeasured = 3;

constexpr int kPercents[] = {100, 50, 30};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<char> gradient_bytes(const Trainer& trainer) {
  std::vector<char> bytes;
  for (const torch::Tensor& parameter : trainer.parameters()) {
    const torch::Tensor gradient = parameter.grad().contiguous();
    const auto* begin = static_cast<const char*>(gradient.data_ptr());
    bytes.insert(bytes.end(), begin, begin + gradient.nbytes());
  }
  return bytes;
}

bool same_bits(const Trace& a, const Trace& b) {
  return a.losses.size() == b.losses.size() &&
         std::memcmp(a.losses.data(), b.losses.data(), a.losses.size() * sizeof(double)) == 0 &&
         a.gradients == b.gradients;
}

/// The least budget that is known to work, from what the budget has seen.
int64_t least_of(encore::MemoryBudget& budget) {
  try {
    budget.set_limit(encore::live_tensor_bytes() + 1);
    (void)budget.step();
  } catch (const encore::BudgetError& error) {
    return error.figures().least_bytes;
  }
  return -1;
}

/// Trains a new model in one way; `step_in_its_way(trainer, i)` does a step and gives its loss.
template <class StepInItsWay>
Trace measure(const Subject& subject, Way* way, const StepInItsWay& step_in_its_way) {
  Trace trace;
  std::vector<double> seconds;
  Trainer trainer(subject);
  Progress progress;
  for (int64_t i = 0; i < kWarmUps + kMeasured; ++i) {
    progress.show(
        "  comparing: " + way->name + ", step " + std::to_string(i + 1) + "/" + std::to_string(kWarmUps + kMeasured),
        i == 0);
    const encore::MemoryScope memory;
    const auto start = Clock::now();
    trace.losses.push_back(step_in_its_way(trainer, i));
    if (i >= kWarmUps) {
      seconds.push_back(seconds_since(start));
      way->resting_bytes = memory.start_bytes();
      way->peak_bytes = std::max(way->peak_bytes, memory.peak_bytes());
    }
    trace.gradients.push_back(gradient_bytes(trainer));
  }
  way->step_seconds = median(seconds);
  return trace;
}

}  // namespace

void Comparison::measure_plain() {
  Way plain("plain");
  plain_ = measure(subject_, &plain, [](Trainer& trainer, int64_t i) { return trainer.step(i); });
  plain.bit_identical = true;
  Way checkpointed("a checkpoint a block");
  const Trace trace = measure(subject_, &checkpointed,
                              [](Trainer& trainer, int64_t i) { return trainer.step(i, Blocks::kCheckpointed); });
  checkpointed.bit_identical = same_bits(trace, plain_);
  ways_ = {plain, checkpointed};
}

void Comparison::measure_budgets() {
  const Way plain = ways_.front();
  for (const int percent : kPercents) {
    const int64_t limit = plain.resting_bytes + (plain.peak_bytes - plain.resting_bytes) * percent / 100;
    ways_.push_back(measure_budget("Encore, " + std::to_string(percent) + "%", limit));
  }
  ways_.push_back(measure_budget("Encore, the least", {}));
}

Way Comparison::measure_budget(const std::string& name, std::optional<int64_t> limit_bytes) const {
  Way way(name);
  encore::MemoryBudget budget(std::numeric_limits<int64_t>::max());
  try {
    const Trace trace = measure(subject_, &way, [&](Trainer& trainer, int64_t i) {
      if (i == kLearning) {
        way.limit_bytes = limit_bytes ? *limit_bytes : least_of(budget);
        budget.set_limit(way.limit_bytes);
      }
      const auto step = budget.step();
      return trainer.step(i);
    });
    way.bit_identical = same_bits(trace, plain_);
  } catch (const encore::BudgetError& error) {
    way.refusal = error.what();
  }
  return way;
}

std::vector<encore::RunSystem> Comparison::systems() const {
  std::vector<encore::RunSystem> systems;
  for (const Way& way : ways_) {
    if (way.refusal.empty()) {
      systems.push_back({way.name, way.peak_bytes, way.step_seconds, way.bit_identical});
    }
  }
  return systems;
}

bool Comparison::all_bit_identical() const {
  return std::all_of(ways_.begin(), ways_.end(),
                     [](const Way& way) { return way.bit_identical || !way.refusal.empty(); });
}

}  // namespace demo
