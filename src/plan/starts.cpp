// Starting points for the search: neighbours are dropped together, and computed again together.
#include <algorithm>
#include <cmath>

#include "plan/search.h"

namespace encore::plan {
namespace {

struct Carried {
  int32_t step;
  int32_t next;  // the stage that reads it next
};

/// Values that are in memory during the stage and not read in it, in the order of the steps.
std::vector<Carried> carried_over(const Stages& stages, int32_t t) {
  const Compact& graph = stages.graph();
  std::vector<Carried> carried;
  for (int32_t step = 0; step < t; ++step) {
    const auto& events = stages.events(step);
    const int32_t k = stages.event_at(step, t);
    const bool over = k < static_cast<int32_t>(events.size()) && events[k].stage > t && !events[k].computed;
    if (over && graph.bytes[step] > 0 && graph.may_recompute(step, events[k].stage)) {
      carried.push_back({step, events[k].stage});
    }
  }
  return carried;
}

/// Cuts the values that are carried over the fullest stage into so many runs of neighbours, and drops run after run,
/// from the first, until the budget is kept or all are dropped. A run is computed again where its first value is read,
/// so that what its values need in common is computed once for all of them.
void drop_segments(Stages* stages, int32_t pieces) {
  const Compact& graph = stages->graph();
  const std::vector<Carried> carried = carried_over(*stages, stages->fullest(0, graph.n));
  int64_t total = 0;
  for (const Carried& value : carried) {
    total += graph.bytes[value.step];
  }
  int64_t bytes = 0;
  auto first = carried.begin();
  for (int32_t piece = 1; piece <= pieces && stages->stages_over() > 0; ++piece) {
    auto last = first;
    int32_t stage = graph.n;
    for (; last != carried.end() && bytes < total / pieces * piece; ++last) {
      bytes += graph.bytes[last->step];
      stage = std::min(stage, last->next);
    }
    const double excess = stages->excess();
    stages->begin();
    for (; first != last; ++first) {
      if (graph.may_recompute(first->step, stage) && !stages->computed_at(stage, first->step)) {
        evict(stages, stage, first->step, nullptr);
      }
    }
    if (stages->excess() >= excess) {
      stages->rollback();
    }
  }
}

// In how many runs, the most promising first; none is greedy alone.
constexpr int32_t kPieces[] = {0, 4, 2, 8, 1, 16};
// Of the lowest peak so far, where a lower one is looked for.
constexpr double kLower = 0.9;

/// Drops what is needed for a lower and lower peak, and returns the lowest reached, not below `least`.
double descend(Stages* stages, double least, int64_t max_work) {
  const int64_t stop = stages->work() + max_work;
  double best = stages->max_peak();
  // Large steps down while they succeed, smaller ones after a failure; each starts from the table of the last.
  for (double step = 0.2; step > 0.01 && best > least && stages->work() < stop;) {
    const auto table = stages->table();
    stages->set_budget(std::max(least, std::floor(best * (1 - step))));
    make_fit(stages, std::min((stop - stages->work()), max_work / 3));
    if (stages->max_peak() < best) {
      best = stages->max_peak();
    } else {
      stages->load(table);
    }
    step = stages->stages_over() > 0 ? step / 2 : step;
  }
  return best;
}

}  // namespace

int64_t lower_peak(Stages* stages, double least, int64_t max_work) {
  const Stages::Table plain = stages->table();
  double lowest = descend(stages, least, max_work);
  for (const int32_t pieces : kPieces) {
    if (pieces == 0 || lowest <= least) {
      continue;
    }
    const Stages::Table best = stages->table();
    stages->load(plain);
    stages->set_budget(std::max(least, std::floor(lowest * kLower)));
    drop_segments(stages, pieces);
    const double peak = descend(stages, least, max_work / 4);
    if (peak < lowest) {
      lowest = peak;
    } else {
      stages->load(best);
    }
  }
  return static_cast<int64_t>(lowest);
}

}  // namespace encore::plan
