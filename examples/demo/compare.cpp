// Runs a few steps in each way, in turn, and compares.
#include "compare.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include <xxhash.h>

#include <ATen/Parallel.h>

#include <encore/error.h>
#include <encore/memory.h>

#include "models.h"
#include "progress.h"
#include "trainer.h"

namespace demo {
namespace {

// The first step makes gradients and Adam's state, the second shows a budget what all others are like, and the third
// makes it plan.
constexpr int64_t kLearning = 2;
constexpr int64_t kWarmUps = kLearning + 1;
constexpr int kRounds = 5;

constexpr int kPercents[] = {100, 50, 30};

std::array<uint64_t, 2> hash_of_gradients(const Trainer& trainer) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (const torch::Tensor& parameter : trainer.parameters()) {
    const torch::Tensor gradient = parameter.grad().contiguous();
    XXH3_128bits_update(&state, gradient.data_ptr(), gradient.nbytes());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {hash.low64, hash.high64};
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

/// What a worker holds.
struct State {
  explicit State(const Subject& subject) : trainer(subject) {}
  Trainer trainer;
  std::optional<encore::MemoryBudget> budget;
  int64_t index = 0;
};

/// Begins in the worker's process: reads the data again, and makes a new model.
StepInItsWay begin(const std::string& model, const Options& options, Blocks blocks, bool with_budget) {
  // The first call begins the counting: tensors made before it would be missing from the figures.
  encore::live_tensor_bytes();
  if (options.threads > 0) {
    at::set_num_threads(options.threads);
  }
  auto state = std::make_shared<State>(make_subject(model, options));
  if (with_budget) {
    state->budget.emplace(std::numeric_limits<int64_t>::max());
  }
  return [=](int64_t limit_bytes) {
    StepResult result;
    if (state->budget && limit_bytes != kNoLimit) {
      result.limit_bytes = limit_bytes == kLeastLimit ? least_of(*state->budget) : limit_bytes;
      state->budget->set_limit(result.limit_bytes);
    }
    const encore::MemoryScope memory;
    const auto start = Clock::now();
    if (state->budget) {
      const auto step = state->budget->step();
      result.loss = state->trainer.step(state->index);
    } else {
      result.loss = state->trainer.step(state->index, blocks);
    }
    result.seconds = seconds_since(start);
    result.resting_bytes = memory.start_bytes();
    result.peak_bytes = memory.peak_bytes();
    result.gradients = hash_of_gradients(state->trainer);
    ++state->index;
    return result;
  };
}

bool same_bits(const std::vector<StepResult>& a, const std::vector<StepResult>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const StepResult& x, const StepResult& y) {
    return std::memcmp(&x.loss, &y.loss, sizeof x.loss) == 0 && x.gradients == y.gradients;
  });
}

/// A step in its way; one that is refused ends the way.
void step(Way* way, int64_t limit_bytes = kNoLimit) {
  if (!way->refusal.empty()) {
    return;
  }
  const StepResult result = way->worker.step(limit_bytes);
  way->limit_bytes = result.limit_bytes >= 0 ? result.limit_bytes : way->limit_bytes;
  way->refusal = result.refusal.data();
  way->steps.push_back(result);
}

}  // namespace

double Way::least_seconds() const {
  return *std::min_element(seconds.begin(), seconds.end());
}

double Way::median_seconds() const {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

Comparison::Comparison(std::string model, const Options& options) : name_(std::move(model)) {
  const auto add = [&](const std::string& name, int percent, Blocks blocks) {
    const bool with_budget = percent >= 0;
    ways_.emplace_back(name, percent, Worker([=, &options] { return begin(name_, options, blocks, with_budget); }));
  };
  add("plain", -1, Blocks::kPlainly);
  add("a checkpoint a block", -1, Blocks::kCheckpointed);
  for (const int percent : kPercents) {
    add("Encore, " + std::to_string(percent) + "%", percent, Blocks::kPlainly);
  }
  add("Encore, the least", 0, Blocks::kPlainly);
}

void Comparison::learn(Way* way) {
  const Way& plain = ways_.front();
  for (int64_t i = 0; i < kWarmUps; ++i) {
    int64_t limit = kNoLimit;
    if (way->percent >= 0 && i == kLearning) {
      const StepResult& last = plain.steps.back();
      const int64_t added = last.peak_bytes - last.resting_bytes;
      limit = way->percent == 0 ? kLeastLimit : last.resting_bytes + added * way->percent / 100;
      way->limit_bytes = limit;
    }
    step(way, limit);
  }
}

void Comparison::measure() {
  Progress progress;
  for (Way& way : ways_) {
    progress.show("  comparing: " + way.name + " learns", true);
    learn(&way);
  }
  for (int round = 1; round <= kRounds; ++round) {
    progress.show("  comparing: round " + std::to_string(round) + "/" + std::to_string(kRounds) + ", a step of each",
                  true);
    for (Way& way : ways_) {
      step(&way);
      if (way.refusal.empty()) {
        way.seconds.push_back(way.steps.back().seconds);
        way.resting_bytes = way.steps.back().resting_bytes;
        way.peak_bytes = std::max(way.peak_bytes, way.steps.back().peak_bytes);
      }
    }
  }
  for (Way& way : ways_) {
    way.bit_identical = way.refusal.empty() && same_bits(way.steps, ways_.front().steps);
  }
}

std::vector<encore::RunSystem> Comparison::systems() const {
  std::vector<encore::RunSystem> systems;
  for (const Way& way : ways_) {
    if (way.refusal.empty()) {
      systems.push_back({way.name, way.peak_bytes, times_tell() ? way.least_seconds() : 0, way.bit_identical});
    }
  }
  return systems;
}

bool Comparison::all_bit_identical() const {
  return std::all_of(ways_.begin(), ways_.end(),
                     [](const Way& way) { return way.bit_identical || !way.refusal.empty(); });
}

}  // namespace demo
