// The rungs, and the fastest of them.
#include "plan/ladder.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <encore/plan/simulate.h>

#include "plan/bounds.h"
#include "plan/exact.h"
#include "plan/ladder_limits.h"

namespace encore::plan {
namespace {

// Rungs lie at every percent of what the plain run adds to the bytes that always rest, or closer where the least budget
// leaves few of them.
constexpr int32_t kRungs = 100;
// Above the least budget they begin so much closer, and each gap is so much wider than the one before.
constexpr double kFiner = 8;
constexpr double kWider = 1.35;
// The exact search is tried on every rung of graphs up to this size.
constexpr int32_t kExactEverywhere = 32;
constexpr int64_t kCutWork = 10 * kWorkUnit;

int64_t effort_of(const PlanOptions& options, int32_t n) {
  if (options.effort >= 0) {
    return options.effort * kWorkUnit;
  }
  return (n <= 2000 ? 150 : 600) * kWorkUnit;
}

// What is there whatever is planned.
int64_t bytes_at_rest(const Graph& graph) {
  int64_t rest = INT64_MAX;
  for (const Step& step : graph.steps) {
    rest = std::min(rest, step.background_bytes);
  }
  return rest;
}

}  // namespace

Ladder::Ladder(const Graph& graph, const Compact& compact, const PlanOptions& options)
    : graph_(graph),
      compact_(compact),
      options_(options),
      peak_bytes_(baseline(graph).peak_bytes),
      rest_bytes_(bytes_at_rest(graph)),
      effort_(effort_of(options, compact.n)),
      has_forms_(
          std::any_of(graph.steps.begin(), graph.steps.end(), [](const Step& step) { return !step.variants.empty(); })),
      cuts_(compact, graph, kCutWork + 2'000 * static_cast<int64_t>(compact.n)) {
  // The exact search doesn't know variants.
  try_exact_ = options.exact_states > 0 && !has_forms_ && compact.n <= kMaxExactSteps;
  small_ = try_exact_ && finishes_within(compact, options.exact_states);
  find_least();
  probe_exact();
  make_rungs();
}

// Closer where there is little between the least budget and the peak, and where one exact search prunes all below.
void Ladder::make_rungs() {
  double count = try_exact_ && compact_.n <= kExactEverywhere ? 4 * kRungs : kRungs;
  const auto above = static_cast<double>(peak_bytes_ - rest_bytes_);
  const auto range = static_cast<double>(peak_bytes_ - lowest_.peak_bytes);
  while (above / count > 1 && range * count < above * kRungs / 3) {
    count *= 2;
  }
  budgets_.push_back(lowest_.peak_bytes);
  // Near the least budget the time falls fast.
  auto near = static_cast<double>(lowest_.peak_bytes);
  for (double gap = above / count / kFiner; gap < above / count && near + gap < static_cast<double>(peak_bytes_);
       gap *= kWider) {
    near += gap;
    budgets_.push_back(static_cast<int64_t>(std::floor(near)));
  }
  for (double k = 1; k < count; ++k) {
    const int64_t bytes = bytes_at(k / count);
    if (bytes > lowest_.peak_bytes) {
      budgets_.push_back(bytes);
    }
  }
  std::sort(budgets_.begin(), budgets_.end());
  budgets_.erase(std::unique(budgets_.begin(), budgets_.end()), budgets_.end());
}

double Ladder::part_of(int64_t budget_bytes) const {
  const auto above = static_cast<double>(peak_bytes_ - rest_bytes_);
  return above > 0 ? static_cast<double>(budget_bytes - rest_bytes_) / above : 1;
}

int64_t Ladder::bytes_at(double part) const {
  return rest_bytes_ + static_cast<int64_t>(std::floor(part * static_cast<double>(peak_bytes_ - rest_bytes_)));
}

// Where the exact search fails halfway between the least budget and the peak, it would fail rung after rung.
void Ladder::probe_exact() {
  if (try_exact_ && !small_) {
    const int64_t middle = lowest_.peak_bytes + (peak_bytes_ - lowest_.peak_bytes) / 2;
    try_exact_ = exact_search(compact_, middle, options_.exact_states).finished;
  }
}

double Ladder::bound(int64_t budget_bytes) {
  const auto [it, added] = bounds_.emplace(budget_bytes, 0);
  if (added) {
    it->second = std::max(least_extra_time(compact_, graph_, budget_bytes), cuts_.at(budget_bytes));
  }
  return it->second;
}

const Ladder::Found* Ladder::fastest(int64_t budget_bytes) {
  const Found* best = nullptr;
  if (small_) {
    best = &begun(budget_bytes).best;
  }
  auto at = std::upper_bound(budgets_.begin(), budgets_.end(), budget_bytes);
  while (at != budgets_.begin()) {
    --at;
    // Whatever is lower is slower still.
    if (best != nullptr && (best->proven || bound(*at) >= best->extra_time * (1 - 1e-12))) {
      break;
    }
    Rung& here = begun(*at);
    // The passes are left out where they could not get so far.
    if (best == nullptr || here.passes_reach < best->extra_time * (1 - 1e-12)) {
      finish(&here);
    }
    if (best == nullptr || here.best.extra_time < best->extra_time * (1 - 1e-12)) {
      best = &here.best;
    }
  }
  return best;
}

// One pass after another on the rungs that are not left out, until the time is over.
void Ladder::go_on(int64_t budget_bytes) {
  const auto stop = std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.seconds);
  const auto over = [&] { return std::chrono::steady_clock::now() >= stop; };
  for (bool changed = true; changed && !over();) {
    changed = false;
    for (auto& [bytes, here] : found_) {
      Found& found = here.best;
      const bool may_win = bytes <= budget_bytes && !found.proven && !found.table.again.empty() &&
                           bound(bytes) < fastest(budget_bytes)->extra_time;
      if (may_win && !over()) {
        Stages stages(compact_, graph_, static_cast<double>(bytes));
        anneal_once(0, &stages, &found);
        changed = true;
      }
    }
  }
}

Ladder::Found Ladder::best_within(int64_t budget_bytes) {
  const Found* best = fastest(budget_bytes);
  if (options_.seconds > 0) {
    go_on(budget_bytes);
    best = fastest(budget_bytes);
  }
  Found answer = *best;
  // The optimum of a lower budget need not be that of this one.
  const auto here = found_.find(budget_bytes);
  answer.proven = best->proven && here != found_.end() && here->second.best.proven;
  answer.schedule = schedule_of(answer);
  return answer;
}

Schedule Ladder::schedule_of(const Found& found) const {
  if (!found.schedule.empty()) {
    return found.schedule;
  }
  Stages stages(compact_, graph_, static_cast<double>(found.peak_bytes));
  stages.load(found.table);
  return stages.schedule();
}

// Where the exact search often fails it is tried at every twentieth of the peak only.
bool Ladder::is_exact_rung(int64_t budget_bytes) const {
  constexpr double kParts = 20;
  return compact_.n <= kExactEverywhere || budget_bytes == lowest_.peak_bytes ||
         budget_bytes == bytes_at(std::round(part_of(budget_bytes) * kParts) / kParts);
}

}  // namespace encore::plan
