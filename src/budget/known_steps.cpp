// Learning and planning.
#include "budget/known_steps.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace encore::budget {
namespace {

constexpr size_t kMostSteps = 16;
constexpr size_t kMostSamples = 5;
// Plans are made after the first step of a kind, and again when its times have been measured this often.
constexpr size_t kSettledSamples = 3;
// A background that differs by less than this part of the limit is the same.
constexpr int64_t kSameBackground = 500;

/// The median: one noisy reading does not make the plan.
double typical(const std::vector<std::vector<double>>& samples, size_t step) {
  std::vector<double> sorted;
  sorted.reserve(samples.size());
  for (const auto& sample : samples) {
    sorted.push_back(sample[step]);
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted[(sorted.size() - 1) / 2];
}

std::vector<double> times_of(const plan::Graph& graph) {
  std::vector<double> times;
  for (const plan::Step& step : graph.steps) {
    times.push_back(step.time);
  }
  return times;
}

bool is_same_background(const StepModel& a, const StepModel& b, int64_t tolerance) {
  for (size_t i = 0; i < a.background.size(); ++i) {
    if (std::abs(a.background[i] - b.background[i]) > tolerance) {
      return false;
    }
  }
  return a.background.size() == b.background.size();
}

/// A planned step packs only what its plan says. Noise makes packing slower, never faster.
void add_known_forms(const plan::Step& known, plan::Step& step) {
  if (step.variants.empty() ||
      (!known.variants.empty() && known.variants.front().encode_time < step.variants.front().encode_time)) {
    step.variants = known.variants;
  }
}

/// Work of the planner: more for more steps, until one change of a plan costs so much that a second would not do.
int64_t effort_for(size_t num_steps) {
  const auto n = static_cast<int64_t>(num_steps);
  return std::min<int64_t>({150, 5 + n / 8, std::max<int64_t>(40, 500'000 / n)});
}

}  // namespace

void KnownSteps::learn(StepModel model, int64_t limit_bytes) {
  const auto same =
      std::find_if(steps_.begin(), steps_.end(), [&](const KnownStep& step) { return step.model->path == model.path; });
  KnownStep step;
  if (same != steps_.end()) {
    step = std::move(*same);
    steps_.erase(same);
  }
  const int64_t tolerance = std::max<int64_t>(1, limit_bytes < 0 ? 1 : limit_bytes / kSameBackground);
  const bool other_background = !step.model || !is_same_background(*step.model, model, tolerance);
  const bool more_times = step.seconds.size() < kMostSamples;
  if (more_times) {
    step.seconds.push_back(times_of(model.graph));
  }
  if (other_background || more_times) {
    for (size_t i = 0; i < model.graph.steps.size(); ++i) {
      model.graph.steps[i].time = typical(step.seconds, i);
      if (step.model) {
        add_known_forms(step.model->graph.steps[i], model.graph.steps[i]);
      }
    }
    step.model = std::make_shared<StepModel>(std::move(model));
    step.plans.clear();  // their times are not comparable with those of plans to come
    if (other_background || (step.planned_samples < kSettledSamples && step.seconds.size() >= kSettledSamples)) {
      step.planned_limit_bytes = -1;
    }
  }
  if (limit_bytes >= 0 && (step.worked_bytes < 0 || limit_bytes < step.worked_bytes)) {
    step.worked_bytes = limit_bytes;
  }
  steps_.push_front(std::move(step));
  if (steps_.size() > kMostSteps) {
    steps_.pop_back();
  }
}

std::shared_ptr<const Itinerary> KnownSteps::find_plan(size_t index, uint64_t path, int64_t limit_bytes) const {
  for (const KnownStep& step : steps_) {
    if (step.plan && step.plan->plan.peak_bytes <= limit_bytes && index < step.model->path.size() &&
        step.model->path[index] == path) {
      return step.plan;
    }
  }
  return nullptr;
}

double KnownSteps::prepare(KnownStep& step, int64_t limit_bytes, int64_t resting_bytes) {
  const bool same_start = std::abs(step.planned_resting_bytes - resting_bytes) <= limit_bytes / kSameBackground;
  if (step.planned_limit_bytes == limit_bytes && same_start) {
    return 0;
  }
  const auto start = std::chrono::steady_clock::now();
  if (!same_start) {
    step.plans.clear();
  }
  plan::PlanOptions options;
  options.effort = effort_for(step.model->graph.steps.size());
  options.exact_states = 0;
  options.minimum = false;
  plan::Plan plan = plan::plan(step.model->graph_for(resting_bytes), limit_bytes, options);
  step.least_bytes = plan.feasible ? -1 : plan.min_feasible_bytes;
  step.plan = nullptr;
  if (plan.feasible) {
    Itinerary itinerary = make_itinerary(step.model, std::move(plan));
    itinerary.planning_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    step.plans.push_back(std::make_shared<Itinerary>(std::move(itinerary)));
  }
  // A plan that was made for less memory and is faster, by luck of the search, serves as well.
  for (const auto& made : step.plans) {
    if (made->plan.peak_bytes <= limit_bytes && (!step.plan || made->plan.time < step.plan->plan.time)) {
      step.plan = made;
    }
  }
  step.planned_limit_bytes = limit_bytes;
  step.planned_samples = step.seconds.size();
  step.planned_resting_bytes = resting_bytes;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace encore::budget
