// The least budget for which the ladder has a plan.
#include <algorithm>
#include <cmath>

#include <encore/plan/simulate.h>

#include "plan/bounds.h"
#include "plan/exact.h"
#include "plan/ladder.h"
#include "plan/ladder_limits.h"
#include "plan/search.h"

namespace encore::plan {

void Ladder::find_least() {
  least_bound_ = least_peak(compact_);
  lowest_.peak_bytes = peak_bytes_;
  lowest_.schedule = plain_schedule(compact_);
  lowest_.method = "plain";
  if (try_exact_) {
    ExactAnswer exact = exact_min_budget(compact_, options_.exact_states);
    if (exact.finished) {
      const Cost cost = simulate(graph_, exact.schedule);
      lowest_ = {
          cost.time - compact_.total_time, cost.peak_bytes, "exact search", false, std::move(exact.schedule), {}, 0};
      least_bound_ = cost.peak_bytes;
      least_is_exact_ = true;
      return;
    }
  }
  least_bound_ = least_peak_by_paths(compact_, graph_, least_bound_, peak_bytes_, path_work(compact_.n));
  Stages stages(compact_, graph_, static_cast<double>(peak_bytes_));
  halve_down(&stages);
  press_down(&stages);
  if (try_exact_) {
    search_down();
  }
  least_is_exact_ = lowest_.peak_bytes == least_bound_;
}

// Runs that evict, at budgets between what is known to be too small or failed and what succeeded.
void Ladder::halve_down(Stages* stages) {
  constexpr double kClose = 1.02;
  constexpr int32_t kFew = 64;
  auto low = static_cast<double>(std::max<int64_t>(least_bound_, 1));
  double next = low;  // The bound itself comes first.
  while (lowest_.peak_bytes > least_bound_ && static_cast<double>(lowest_.peak_bytes) > low * kClose) {
    Found found;
    stages->set_budget(std::floor(next));
    for (size_t k = 0; k < std::size(kWorths) && found.peak_bytes == 0; ++k) {
      // The others come nowhere near in large graphs, and take long to find out.
      if (kWorths[k].deep || compact_.n <= kFew) {
        try_worth(k, stages, &found);
      }
    }
    if (found.peak_bytes == 0 && compact_.n <= kFew) {
      try_online(INFINITY, stages, &found);
    }
    if (found.peak_bytes > 0) {
      lowest_ = std::move(found);
    } else {
      low = next;
    }
    next = std::sqrt(low * static_cast<double>(lowest_.peak_bytes));
  }
}

void Ladder::press(Stages* stages) {
  const auto least = static_cast<double>(least_bound_);
  if (lowest_.peak_bytes > least_bound_ && lower_peak(stages, least, press_work(compact_.n)) < lowest_.peak_bytes) {
    stages->set_budget(stages->max_peak());
    relax(stages, start_work(compact_.n));
    lowest_ = {stages->extra_time(), static_cast<int64_t>(stages->max_peak()), "local search", false, {},
               stages->table()};
  }
}

// Drops more and more from the table with the lowest peak, and from the plain one.
void Ladder::press_down(Stages* stages) {
  const int64_t halved = lowest_.peak_bytes;
  if (!lowest_.table.again.empty()) {
    stages->load(lowest_.table);
    press(stages);
  }
  stages->load(Stages(compact_, graph_, 0).table());
  press(stages);
  press_others(halved, stages);
  heat_down(stages);
}

// Where the bound leaves room: each weighting's run near the lowest leads elsewhere when more is dropped from it.
void Ladder::press_others(int64_t from_bytes, Stages* stages) {
  constexpr int32_t kMany = 300;  // Steps; above, that is dear and gains nothing.
  constexpr double kRoom = 1.2;
  const auto is_far = [&] {
    return static_cast<double>(lowest_.peak_bytes) > kRoom * static_cast<double>(least_bound_);
  };
  for (size_t k = 0; k < std::size(kWorths) && compact_.n <= kMany && is_far(); ++k) {
    Found found;
    for (double part = 1; part < 1.2 && kWorths[k].deep && found.table.again.empty(); part += 0.04) {
      stages->set_budget(std::floor(part * static_cast<double>(from_bytes)));
      try_worth(k, stages, &found);
    }
    if (!found.table.again.empty()) {
      stages->load(found.table);
      press(stages);
    }
  }
}

// Annealing at budgets below the lowest peak, as long as that succeeds.
void Ladder::heat_down(Stages* stages) {
  Stages::Table start = lowest_.table;
  if (start.again.empty()) {
    stages->set_budget(static_cast<double>(lowest_.peak_bytes));
    stages->load(Stages(compact_, graph_, 0).table());
    make_fit(stages, start_work(compact_.n));
    start = stages->table();
  }
  const int64_t work = hot_work(compact_.n);
  for (const double part : {0.4, 0.15, 0.05}) {
    for (int tries = 0; tries < 3; ++tries) {
      const auto gap = static_cast<double>(lowest_.peak_bytes - least_bound_);
      stages->load(start);
      stages->set_budget(static_cast<double>(lowest_.peak_bytes) - std::max(1.0, std::ceil(part * gap)));
      if (gap <= 0 || !cool_into(stages, work, 1)) {
        break;
      }
      relax(stages, start_work(compact_.n));
      lowest_ = {stages->extra_time(), static_cast<int64_t>(stages->max_peak()), "local search", false, {},
                 stages->table()};
      start = lowest_.table;
    }
  }
}

// The exact search for time may finish where that for memory doesn't.
void Ladder::search_down() {
  for (int tries = 0; tries < 6 && least_bound_ < lowest_.peak_bytes; ++tries) {
    const int64_t middle = least_bound_ + (lowest_.peak_bytes - least_bound_) / 2;
    ExactAnswer exact = exact_search(compact_, middle, options_.exact_states);
    if (!exact.finished) {
      return;
    }
    if (exact.feasible) {
      const int64_t peak = simulate(graph_, exact.schedule).peak_bytes;
      lowest_ = {exact.extra_time, peak, "exact search", false, std::move(exact.schedule), {}, 0};
    } else {
      least_bound_ = middle + 1;
    }
  }
}

}  // namespace encore::plan
