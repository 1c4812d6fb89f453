// What a kind of step needs, by its model.
#include "budget/fraction.h"

#include <algorithm>
#include <limits>

#include <encore/plan/curve.h>

namespace encore::budget {
namespace {

/// In all, of such a step, with more than a part of the plain peak to find.
int64_t least_on_curve(const plan::Graph& graph, double most_seconds, const std::function<void(double)>& progress) {
  plan::CurveOptions options;
  options.points = 12;
  options.plan.effort = 5;
  options.plan.exact_states = 0;
  options.plan.progress = progress;
  for (const plan::CurvePoint& point : plan::curve(graph, options)) {
    if (point.time <= most_seconds) {
      return point.budget_bytes;
    }
  }
  return plan::baseline(graph).peak_bytes;
}

/// About the same at once: halved down between what a single op needs and the plain peak.
int64_t least_by_sketches(const plan::Graph& graph, double most_seconds) {
  constexpr int kHalvings = 6;
  const plan::Plan plain = plan::sketch(graph, plan::baseline(graph).peak_bytes);
  int64_t least = plain.peak_bytes;
  int64_t low = std::min(least, plain.min_bytes_lower_bound);
  for (int i = 0; i < kHalvings && low < least; ++i) {
    const int64_t middle = low + (least - low) / 2;
    const plan::Plan sketch = plan::sketch(graph, middle);
    if (sketch.feasible && sketch.time <= most_seconds) {
      least = sketch.peak_bytes;
    } else {
      low = middle + 1;
    }
  }
  return least;
}

/// How long a step may take that needs no more than wanted.
double most_seconds(Fraction::Of of, double part, const plan::Graph& graph) {
  return of == Fraction::Of::kLeast ? std::numeric_limits<double>::infinity() : part * plan::baseline(graph).time;
}

}  // namespace

bool Fraction::learn(int64_t resting, std::chrono::milliseconds patience) {
  const int64_t before = need_bytes;
  const bool was_settled = is_settled;
  const size_t was_unsettled = unsettled_.size();
  const auto has_changed = [&] {
    return need_bytes != before || is_settled != was_settled || unsettled_.size() != was_unsettled;
  };
  need_bytes = std::max(need_bytes, std::exchange(seen_bytes, -1));
  if (const auto need = curve_.take(std::chrono::milliseconds(0))) {
    note(*need);
  }
  const auto model = std::exchange(news, nullptr);
  if (!is_learnt() || !model) {
    return has_changed();
  }
  plan::Graph graph = model->graph_for(resting);
  Need need{model->signature(), 0, resting - model->resting_bytes, {}};
  if (of == Of::kPlain) {
    need.bytes = std::max<int64_t>(0, plan::baseline(graph).peak_bytes - overestimate_bytes - resting);
    note(need);
    return has_changed();
  }
  if (is_looked_at(need.kind) || curve_.is_busy()) {
    return has_changed();
  }
  const double seconds = most_seconds(of, part, graph);
  if (need_bytes < 0 && patience != Background<Need>::kForever) {  // something to begin with
    need_bytes = std::max<int64_t>(0, least_by_sketches(graph, seconds) - resting);
  }
  curve_.start([need, seconds, resting, graph = std::move(graph)](const Background<Need>::Alive& alive) mutable {
    try {
      need.bytes = std::max<int64_t>(0, least_on_curve(graph, seconds, [&](double) { alive(); }) - resting);
    } catch (const std::exception& error) {  // the training goes on with what is known
      need.trouble = error.what();
      need.bytes = std::max<int64_t>(0, least_by_sketches(graph, seconds) - resting);
    }
    return need;
  });
  if (const auto found = curve_.take(patience)) {
    note(*found);
  }
  return has_changed();
}

/// Where more rests after each step, as in a loop that keeps its outputs, nothing ever settles.
bool Fraction::is_looked_at(uint64_t kind) const {
  constexpr int kMostInVain = 3;
  const auto in_vain = unsettled_.find(kind);
  return (is_settled && kinds_.count(kind) > 0) || (in_vain != unsettled_.end() && in_vain->second >= kMostInVain);
}

void Fraction::note(const Need& need) {
  constexpr int64_t kSettledPart = 1000;
  trouble = need.trouble;
  const bool settled = need.rests_more_bytes * kSettledPart <= need.bytes;
  if (settled) {
    kinds_.insert(need.kind);
  } else {
    ++unsettled_[need.kind];
  }
  if (settled && !is_settled) {
    is_settled = true;
    need_bytes = need.bytes;
  } else if (settled || !is_settled) {
    need_bytes = std::max(need_bytes, need.bytes);
  }
}

void Fraction::rehearsed(const StepModel& model, int64_t resting) {
  if (!is_learnt() || is_settled) {
    return;
  }
  const plan::Graph graph = model.graph_for(resting);
  const int64_t bytes = of == Of::kPlain ? plan::baseline(graph).peak_bytes - overestimate_bytes
                                         : least_on_curve(graph, most_seconds(of, part, graph), {});
  need_bytes = std::max(need_bytes, std::max<int64_t>(0, bytes - resting));
}

}  // namespace encore::budget
