// What is learnt of a kind of step, and which kinds are kept.
#include "budget/known_steps.h"

#include <algorithm>
#include <cmath>

namespace encore::budget {
namespace {

// Kinds that are kept: as many as these, or more as long as they are small.
constexpr size_t kMostLargeKinds = 16;
constexpr size_t kMostKinds = 64;
constexpr size_t kMostStepsOfAll = 32'000;
constexpr size_t kMostSamples = 5;
constexpr size_t kMostPlans = 8;  // of a kind
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

bool is_same_background(const StepModel& before, const StepModel& now, int64_t tolerance) {
  const plan::Graph expected = before.graph_for(now.resting_bytes);
  const plan::Graph measured = now.graph_for(now.resting_bytes);
  return std::equal(expected.steps.begin(), expected.steps.end(), measured.steps.begin(), measured.steps.end(),
                    [&](const plan::Step& a, const plan::Step& b) {
                      return std::abs(a.background_bytes - b.background_bytes) <= tolerance;
                    });
}

/// Whether times are settled when a step comes for the so-manieth time, and a plan that could be followed is right. Now
/// and then it is looked at again.
bool is_settled_by(int64_t count) {
  constexpr int64_t kSometimes = 16;
  return count > static_cast<int64_t>(kMostSamples) && count % kSometimes != 0;
}

/// A planned step packs only what its plan says. Noise makes packing slower, never faster.
void add_known_forms(const plan::Step& known, plan::Step& step) {
  if (step.variants.empty() ||
      (!known.variants.empty() && known.variants.front().encode_time < step.variants.front().encode_time)) {
    step.variants = known.variants;
  }
}

}  // namespace

Sight KnownSteps::see(uint64_t signature, double seconds) {
  ++seen_;
  thrift_.trained(seconds);
  const Sight sight = thrift_.see(signature);
  latest_is_known_ = bring_to_front(signature);
  if (latest_is_known_) {
    steps_.front().sight = sight;
    steps_.front().seen_at = seen_;
  }
  return sight;
}

bool KnownSteps::bring_to_front(uint64_t signature) {
  const auto same = std::find_if(steps_.begin(), steps_.end(),
                                 [&](const KnownStep& step) { return step.model->signature() == signature; });
  if (same == steps_.end()) {
    return false;
  }
  KnownStep step = std::move(*same);
  steps_.erase(same);
  steps_.push_front(std::move(step));
  return true;
}

KnownStep* KnownSteps::latest() {
  return latest_is_known_ && !steps_.empty() ? &steps_.front() : nullptr;
}

bool KnownSteps::has_plans() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const KnownStep& step) { return !step.plans.empty(); });
}

bool KnownSteps::is_worth_learning(const Sight& sight, size_t events, bool followed_its_plan) const {
  const bool is_settled = latest_is_known_ && is_settled_by(sight.count) && followed_its_plan;
  return !is_settled && thrift_.may_learn(sight, events);
}

bool KnownSteps::is_routine(const KnownStep& step) {
  constexpr int64_t kInARow = 4;
  return step.plan && step.went_smoothly && !step.hides_others && is_settled_by(step.sight.count + 1) &&
         step.sight.streak >= kInARow && step.plan->asks_for_nothing();
}

/// False if all that is known is worth more than another kind.
bool KnownSteps::make_room_for(const StepModel& model, const Sight& sight) {
  size_t all = model.graph.steps.size();
  for (const KnownStep& step : steps_) {
    all += step.model->graph.steps.size();
  }
  while (steps_.size() >= kMostKinds || (steps_.size() >= kMostLargeKinds && all > kMostStepsOfAll)) {
    const KnownStep& oldest = steps_.back();
    if (sight.streak <= 1 && sight.distance > 0 && seen_ - oldest.seen_at <= sight.distance) {
      return false;
    }
    all -= oldest.model->graph.steps.size();
    steps_.pop_back();
  }
  return true;
}

void KnownSteps::learn(StepModel model, int64_t limit_bytes, const Sight& sight, double seconds) {
  thrift_.learnt(seconds, model.path.size());
  KnownStep step;
  if (latest_is_known_) {
    step = std::move(steps_.front());
    steps_.pop_front();
  } else if (!make_room_for(model, sight)) {
    return;
  }
  if (step.model && step.model->graph.steps.size() != model.graph.steps.size()) {
    // Of the same path other values were looked after this time: nothing that is known is about these steps.
    KnownStep anew;
    anew.plans_made = step.plans_made;
    step = std::move(anew);
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
    if (other_background || (step.planned_samples < kSettledSamples && step.seconds.size() >= kSettledSamples)) {
      step.planned_limit_bytes = -1;
      step.searched.clear();
    }
  }
  step.sight = sight;
  step.seen_at = seen_;
  steps_.push_front(std::move(step));
  latest_is_known_ = true;
}

void KnownSteps::rehearsed(const StepModel& model, std::vector<plan::Plan> plans, int64_t limit_bytes,
                           int64_t resting_bytes) {
  latest_is_known_ = bring_to_front(model.signature());
  Sight sight;
  sight.streak = 2;  // it is sure to come: it has a right to plans
  learn(model, limit_bytes, latest_is_known_ ? steps_.front().sight : sight, 0);
  KnownStep* step = latest();
  if (step == nullptr || limit_bytes < 0 || step->model->graph.steps.size() != model.graph.steps.size()) {
    return;
  }
  for (plan::Plan& plan : plans) {
    Itinerary itinerary = make_itinerary(step->model, std::move(plan));
    itinerary.resting_bytes = resting_bytes;
    step->add(std::move(itinerary));
  }
  step->least_bytes = -1;
  for (const auto& made : step->plans) {
    step->least_bytes =
        step->least_bytes < 0 ? made->plan.peak_bytes : std::min(step->least_bytes, made->plan.peak_bytes);
  }
  step->plan_for(limit_bytes, resting_bytes);
  step->choose();
}

std::shared_ptr<const Itinerary> KnownStep::best_for(int64_t limit_bytes, int64_t resting_bytes) const {
  std::shared_ptr<const Itinerary> best;
  for (const auto& made : plans) {
    if (made->peak_at(resting_bytes) <= limit_bytes && (!best || made->plan.time < best->plan.time)) {
      best = made;
    }
  }
  return best;
}

std::shared_ptr<const Itinerary> KnownSteps::find_plan(size_t index, uint64_t path, int64_t limit_bytes,
                                                       int64_t resting_bytes) const {
  for (const KnownStep& step : steps_) {
    if (index < step.model->path.size() && step.model->path[index] == path) {
      if (auto plan = step.best_for(limit_bytes, resting_bytes)) {
        return plan;
      }
    }
  }
  return nullptr;
}

const KnownStep* KnownSteps::find_unplanned(size_t index, uint64_t path, int64_t limit_bytes) const {
  const auto found = std::find_if(steps_.begin(), steps_.end(), [&](const KnownStep& step) {
    return index < step.model->path.size() && step.model->path[index] == path && step.does_not_fit(limit_bytes);
  });
  return found == steps_.end() ? nullptr : &*found;
}

void KnownStep::add(Itinerary itinerary) {
  plans.push_back(std::make_shared<Itinerary>(std::move(itinerary)));
  if (plans.size() <= kMostPlans) {
    return;
  }
  const auto newest = plans.end() - 1;
  auto goes = std::find_if(plans.begin(), newest, [](const auto& made) { return made->searched_for.limit_bytes < 0; });
  goes = goes == newest ? plans.begin() : goes;
  const PlannedFor lost = (*goes)->searched_for;
  searched.erase(std::remove_if(searched.begin(), searched.end(),
                                [&](const PlannedFor& made) {
                                  return made.limit_bytes == lost.limit_bytes &&
                                         made.resting_bytes == lost.resting_bytes;
                                }),
                 searched.end());
  plans.erase(goes);
}

/// A plan that was made for less memory and is faster, by luck of the search, serves as well.
void KnownStep::choose() {
  plan = best_for(planned_limit_bytes, planned_resting_bytes);
}

bool KnownStep::has_searched(int64_t limit_bytes, int64_t resting_bytes, int64_t tolerance_bytes) {
  const auto same = std::find_if(searched.begin(), searched.end(), [&](const PlannedFor& made) {
    return made.limit_bytes == limit_bytes && std::abs(made.resting_bytes - resting_bytes) <= tolerance_bytes;
  });
  if (same == searched.end() || is_being_planned) {
    return false;
  }
  planned_limit_bytes = limit_bytes;
  planned_resting_bytes = same->resting_bytes;
  is_sketched = false;
  choose();
  return plan != nullptr;
}

void KnownStep::plan_for(int64_t limit_bytes, int64_t resting_bytes) {
  planned_limit_bytes = limit_bytes;
  planned_resting_bytes = resting_bytes;
  planned_samples = seconds.size();
}

}  // namespace encore::budget
