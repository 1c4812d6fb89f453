// Plans for kinds of steps that are known, most of them made while training goes on.
#include <algorithm>
#include <cmath>

#include <time.h>

#include <encore/error.h>
#include <encore/plan/simulate.h>

#include "base/clock.h"
#include "budget/known_steps.h"

namespace encore::budget {
namespace {

// The search takes more than its share of a step's time from here on: such steps stay online, which takes little more
// than linear time.
constexpr size_t kMostPlannedSteps = 12'000;
// What rests may differ by this part of the limit before plans are made anew.
constexpr int64_t kSameRest = 500;
// A sketch leaves this part of the limit free: what a step needs is foretold less exactly after its first time, and
// where there is no room for that a search is worth waiting for.
constexpr int64_t kSketchMargin = 200;

/// Plans that were made with other times or backgrounds, with what they cost now: a search may find nothing where an
/// earlier one did.
std::vector<std::shared_ptr<const Itinerary>> repriced(const std::vector<std::shared_ptr<const Itinerary>>& plans,
                                                       const std::shared_ptr<const StepModel>& model,
                                                       const plan::Graph& graph, int64_t resting_bytes) {
  std::vector<std::shared_ptr<const Itinerary>> kept;
  const plan::Baseline baseline = plan::baseline(graph);
  for (const auto& made : plans) {
    if (made->model->graph.steps.size() != graph.steps.size()) {
      continue;
    }
    try {
      plan::Plan plan = made->plan;
      const plan::Cost cost = plan::simulate(graph, plan.schedule);
      plan.time = cost.time;
      plan.peak_bytes = cost.peak_bytes;
      plan.baseline_time = baseline.time;
      plan.baseline_peak_bytes = baseline.peak_bytes;
      Itinerary itinerary = make_itinerary(model, std::move(plan));
      itinerary.planning_seconds = made->planning_seconds;
      itinerary.resting_bytes = resting_bytes;
      itinerary.searched_for = made->searched_for;
      kept.push_back(std::make_shared<Itinerary>(std::move(itinerary)));
    } catch (const InvalidArgument&) {
      // A form that it used is not known any more.
    }
  }
  return kept;
}

/// Work of the planner: more for more steps, until one change of a plan costs so much that a second would not do.
int64_t effort_for(size_t num_steps) {
  const auto n = static_cast<int64_t>(num_steps);
  return std::min<int64_t>({150, 5 + n / 8, std::max<int64_t>(40, 500'000 / n)});
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Whether the kind has come again, or is sure to: a search takes as long as many a step, and a sketch does meanwhile.
bool is_worth_a_search(const KnownStep& step) {
  return step.sight.count > 1 || step.sight.streak > 1;
}

plan::Plan search(const plan::Graph& graph, int64_t limit_bytes, bool minimum,
                  const std::function<void(double)>& progress) {
  plan::PlanOptions options;
  options.effort = effort_for(graph.steps.size());
  options.exact_states = 0;
  options.minimum = minimum;
  options.progress = progress;
  return plan::plan(graph, limit_bytes, options);
}

}  // namespace

std::optional<plan::Plan> KnownSteps::plan_for(const plan::Graph& graph, int64_t limit_bytes, bool minimum) {
  if (graph.steps.size() > kMostPlannedSteps) {
    return std::nullopt;
  }
  return search(graph, limit_bytes, minimum, {});
}

bool KnownSteps::may_search(const KnownStep& step) const {
  return !planning_.is_busy() && thrift_.may_plan(step.sight, step.plans_made, step.model->graph.steps.size());
}

double KnownSteps::prepare(KnownStep& step, int64_t limit_bytes, int64_t resting_bytes, bool waits) {
  take_over(waits ? Background<Made>::kForever : std::chrono::milliseconds(0));
  if (step.is_being_planned && !planning_.is_busy()) {
    step.is_being_planned = false;  // by the process that forked this one
    step.is_sketched = true;
  }
  const bool same_start = std::abs(step.planned_resting_bytes - resting_bytes) <= limit_bytes / kSameRest;
  const bool is_new = step.planned_limit_bytes != limit_bytes || !same_start;
  if (is_new && step.has_searched(limit_bytes, resting_bytes, limit_bytes / kSameRest)) {
    return 0;
  }
  const size_t num_steps = step.model->graph.steps.size();
  if (num_steps > kMostPlannedSteps) {
    step.plan = nullptr;
    return 0;
  }
  bool searches = (is_new || (step.is_sketched && is_worth_a_search(step))) && may_search(step);
  if (!is_new && !searches) {
    return 0;
  }
  const int64_t start_ns = now_ns();
  const auto seconds_so_far = [&] { return static_cast<double>(now_ns() - start_ns) * 1e-9; };
  plan::Graph graph = step.model->graph_for(resting_bytes);
  if (is_new && (waits ? !searches : !thrift_.may_sketch(step.sight, num_steps))) {
    step.plan = step.best_for(limit_bytes, resting_bytes);
    return 0;
  }
  if (is_new) {
    step.plans = repriced(step.plans, step.model, graph, resting_bytes);
    step.plan_for(limit_bytes, resting_bytes);
    step.choose();
  }
  if (is_new && !waits) {
    sketch(step, graph);
    thrift_.sketched(seconds_so_far(), num_steps);
    if (!step.plan && planning_.is_busy()) {
      take_over(Background<Made>::kForever);
      searches = !step.plan && may_search(step);
    }
  }
  if (searches && (waits || (step.is_sketched && is_worth_a_search(step)) || !step.plan)) {
    order(step, std::move(graph));
    if (waits || !step.plan) {
      take_over(Background<Made>::kForever);
    }
  }
  return seconds_so_far();
}

/// What can be followed at once, until a search has found better.
void KnownSteps::sketch(KnownStep& step, const plan::Graph& graph) {
  const int64_t limit_bytes = step.planned_limit_bytes;
  const bool fits = plan::baseline(graph).peak_bytes <= limit_bytes;
  plan::Plan sketch = plan::sketch(graph, fits ? limit_bytes : limit_bytes - limit_bytes / kSketchMargin);
  const bool is_plain = sketch.feasible && sketch.time <= sketch.baseline_time;
  if (sketch.feasible) {
    step.least_bytes = step.least_bytes < 0 ? sketch.peak_bytes : std::min(step.least_bytes, sketch.peak_bytes);
    Itinerary itinerary = make_itinerary(step.model, std::move(sketch));
    itinerary.resting_bytes = step.planned_resting_bytes;
    step.add(std::move(itinerary));
  }
  step.choose();
  step.is_sketched = !is_plain;  // nothing is better than the plain step
}

void KnownSteps::order(KnownStep& step, plan::Graph graph) {
  step.is_being_planned = true;
  step.is_sketched = false;
  planning_.start([model = step.model, graph = std::move(graph), limit_bytes = step.planned_limit_bytes,
                   resting_bytes = step.planned_resting_bytes](const Background<Made>::Alive& alive) {
    const double start = thread_seconds();
    Made made{model, {limit_bytes, resting_bytes}, {}, {}, 0};
    try {
      made.plan = search(graph, limit_bytes, /*minimum=*/false, [&](double) { alive(); });
    } catch (const std::exception& error) {  // the training does without, and its report says so
      made.trouble = error.what();
    }
    made.seconds = thread_seconds() - start;
    return made;
  });
}

/// What was planned, if it is there by then.
void KnownSteps::take_over(std::chrono::milliseconds patience) {
  std::optional<Made> made = planning_.take(patience);
  if (!made) {
    return;
  }
  thrift_.planned(made->seconds, made->model->graph.steps.size());
  const auto same = std::find_if(steps_.begin(), steps_.end(), [&](const KnownStep& step) {
    return step.model->signature() == made->model->signature();
  });
  if (same == steps_.end()) {
    return;  // forgotten meanwhile
  }
  KnownStep& step = *same;
  step.is_being_planned = false;
  step.trouble = made->trouble;
  ++step.plans_made;
  if (made->model == step.model) {
    constexpr size_t kMostLimits = 8;
    if (step.searched.size() >= kMostLimits) {
      step.searched.erase(step.searched.begin());
    }
    step.searched.push_back(made->planned_for);
  }
  if (made->trouble.empty()) {
    add(step, std::move(*made));
  }
  if (step.planned_limit_bytes >= 0) {
    step.choose();
  }
}

void KnownSteps::add(KnownStep& step, Made made) {
  step.least_bytes = made.plan.min_feasible_bytes;
  if (made.plan.feasible) {
    Itinerary itinerary = make_itinerary(made.model, std::move(made.plan));
    itinerary.planning_seconds = made.seconds;
    itinerary.resting_bytes = made.planned_for.resting_bytes;
    itinerary.searched_for = made.planned_for;
    std::vector<std::shared_ptr<const Itinerary>> fresh = {std::make_shared<Itinerary>(std::move(itinerary))};
    const int64_t resting = step.planned_limit_bytes >= 0 ? step.planned_resting_bytes : made.planned_for.resting_bytes;
    if (made.model != step.model || resting != made.planned_for.resting_bytes) {  // measured anew meanwhile
      fresh = repriced(fresh, step.model, step.model->graph_for(resting), resting);
    }
    std::for_each(fresh.begin(), fresh.end(), [&](const auto& plan) { step.add(*plan); });
  }
  for (const auto& plan : step.plans) {
    step.least_bytes = std::min(step.least_bytes, plan->plan.peak_bytes);
  }
}

}  // namespace encore::budget
