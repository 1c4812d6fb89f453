// What is found on a rung: its starts, and the passes that anneal the best of them.
#include <algorithm>
#include <cmath>

#include <encore/plan/simulate.h>

#include "plan/exact.h"
#include "plan/ladder.h"
#include "plan/ladder_limits.h"
#include "plan/online.h"
#include "plan/search.h"

namespace encore::plan {
namespace {

// The passes of a rung: the work of the first, how much more each has than the one before, and their heats.
constexpr int64_t kFirstPass = kWorkUnit / 10;
constexpr int64_t kGrowth = 4;
constexpr int64_t kLongestPass = 400 * kWorkUnit;
constexpr double kHeats[] = {0.1, 1, 0.3, 0.3, 2};
// Where so much work for each step gained nothing, longer passes seldom do: they count as many times.
constexpr int64_t kPatience = 15'000;
// Few passes seldom make a start faster by a quarter, and by more than this they may not: rungs that are that far
// behind are left as they are.
constexpr int64_t kFewPasses = 34 * kWorkUnit;
constexpr double kReach = 0.6;
// An effort is meant for a whole plan; about so many rungs share it.
constexpr int64_t kShared = 14;
// Above this part of the range they are fewer.
constexpr double kHigh = 0.45;
constexpr int64_t kSharedHigh = 4;
// Rungs of small graphs get more work where the start is further above the bound than this part of the time.
constexpr double kFar = 0.25;
int64_t more_work(int32_t n) {
  return n <= 64 ? 16 : n <= 200 ? 4 : 1;
}

int64_t eviction_work(int32_t n) {
  return 2 * kWorkUnit + 3'000 * static_cast<int64_t>(n);
}

int64_t online_work(int32_t n) {
  return 20 * kWorkUnit + 20'000 * static_cast<int64_t>(n);
}

int64_t pass_work(uint64_t pass) {
  int64_t work = kFirstPass;
  for (; pass > 0 && work < kLongestPass; --pass) {
    work *= kGrowth;
  }
  return work;
}

// So many ways to start, the best at a scout, are tried on the rungs near it. Scouts lie at these powers.
constexpr size_t kWays = 2;
constexpr double kScouts = 0.75;
constexpr size_t kGreedy = std::size(kWorths);  // The way that is none of the worths.

}  // namespace

void Ladder::offer(Stages* stages, const char* method, Found* best) const {
  const bool faster = best->schedule.empty() && best->table.again.empty();
  if (stages->stages_over() > 0 || (!faster && stages->extra_time() >= best->extra_time * (1 - 1e-12))) {
    return;
  }
  *best = {stages->extra_time(), static_cast<int64_t>(stages->max_peak()), method, false, {}, stages->table(), 0};
}

void Ladder::offer(EvictingRun run, int64_t budget_bytes, Found* best) const {
  const bool faster = best->schedule.empty() && best->table.again.empty();
  if (!run.done || (!faster && run.extra_time >= best->extra_time * (1 - 1e-12))) {
    return;
  }
  const int64_t peak = simulate(graph_, run.schedule).peak_bytes;
  if (peak <= budget_bytes) {
    *best = {run.extra_time, peak, "eviction with foresight", false, std::move(run.schedule), {}, 0};
  }
}

void Ladder::try_greedy(Stages* stages, Found* best) const {
  stages->load(Stages(compact_, graph_, 0).table());
  if (make_fit(stages, start_work(compact_.n))) {
    relax(stages, start_work(compact_.n));
    offer(stages, "local search", best);
  }
}

void Ladder::try_worth(size_t which, Stages* stages, Found* best) const {
  int64_t work = 0;
  try_run(run_evicting(compact_, stages->budget(), kWorths[which], eviction_work(compact_.n), &work), stages, best);
}

// Who evicts without a look ahead is seldom faster, and so seldom comes to an end.
void Ladder::try_online(double most_extra_time, Stages* stages, Found* best) const {
  int64_t work = 0;
  const auto budget = static_cast<int64_t>(stages->budget());
  try_run(run_online(graph_, budget, most_extra_time, online_work(compact_.n), &work), stages, best);
}

void Ladder::try_run(EvictingRun run, Stages* stages, Found* best) const {
  if (!run.done) {
    return;
  }
  if (has_forms_ && !best->table.form.empty()) {
    run.table.form = best->table.form;
  }
  stages->load(run.table);
  if (stages->stages_over() > 0) {
    // In the order of the steps it doesn't fit; what is left of it when it is tidied up may.
    tidy(compact_, stages->budget(), start_work(compact_.n), &run);
    run.table.form = stages->table().form;
    stages->load(run.table);
  }
  if (make_fit(stages, start_work(compact_.n))) {
    relax(stages, start_work(compact_.n));
    offer(stages, "local search", best);
  }
  offer(std::move(run), static_cast<int64_t>(stages->budget()), best);
}

Ladder::Rung& Ladder::begun(int64_t budget_bytes) {
  const auto [it, added] = found_.emplace(budget_bytes, Rung());
  Rung& rung = it->second;
  if (!added) {
    return rung;
  }
  rung.budget_bytes = budget_bytes;
  if (small_ || (try_exact_ && is_exact_rung(budget_bytes))) {
    ExactAnswer exact = exact_search(compact_, budget_bytes, options_.exact_states);
    double& bound_here = bounds_.emplace(budget_bytes, bound(budget_bytes)).first->second;
    bound_here = std::max(bound_here, exact.extra_time);
    if (exact.finished) {
      const int64_t peak = simulate(graph_, exact.schedule).peak_bytes;
      rung.best = {exact.extra_time, peak, "exact search", true, std::move(exact.schedule), {}};
      return rung;
    }
  }
  start(&rung);
  return rung;
}

void Ladder::start(Rung* rung) {
  Found* best = &rung->best;
  Stages stages(compact_, graph_, static_cast<double>(rung->budget_bytes));
  if (!lowest_.table.again.empty()) {
    stages.load(lowest_.table);
    relax(&stages, start_work(compact_.n));
    offer(&stages, "from the lowest peak", best);
  }
  for (const size_t way : ways_at(rung->budget_bytes)) {
    way == kGreedy ? try_greedy(&stages, best) : try_worth(way, &stages, best);
  }
  try_online(best->peak_bytes > 0 ? best->extra_time : lowest_.extra_time, &stages, best);
  if (best->table.again.empty()) {
    // As a table nothing fits so far.
    stages.load(Stages(compact_, graph_, 0).table());
    make_fit(&stages, start_work(compact_.n));
    if (cool_into(&stages, hot_work(compact_.n), 1)) {
      relax(&stages, start_work(compact_.n));
      offer(&stages, "local search", &rung->by_table);
    }
  } else {
    rung->by_table = *best;
  }
  const bool far = rung->by_table.extra_time - bound(rung->budget_bytes) > kFar * compact_.total_time;
  const bool high = part_of(rung->budget_bytes) > kHigh;
  rung->work_left = effort_ / (high ? kSharedHigh : kShared) * (far ? more_work(compact_.n) : 1);
  take_fastest(rung);
  const bool few = rung->work_left < kFewPasses;
  rung->passes_reach = rung->by_table.table.again.empty() ? INFINITY : few ? kReach * best->extra_time : 0;
}

// Each pass has more work than the one before.
void Ladder::finish(Rung* rung) {
  Found* found = &rung->by_table;
  Stages stages(compact_, graph_, static_cast<double>(rung->budget_bytes));
  const double start = found->extra_time;
  int64_t spent = 0;
  while (!found->table.again.empty() && pass_work(found->passes) <= rung->work_left) {
    rung->work_left -= pass_work(found->passes);
    spent += pass_work(found->passes);
    anneal_once(rung->passes_reach, &stages, found);
    if (spent > kPatience * compact_.n && found->extra_time >= start) {
      rung->work_left /= kGrowth;
    }
  }
  rung->work_left = 0;
  take_fastest(rung);
}

void Ladder::take_fastest(Rung* rung) const {
  Found* best = &rung->best;
  const auto take = [&](const Found& found) {
    if (found.peak_bytes > 0 && (best->peak_bytes == 0 || found.extra_time < best->extra_time)) {
      *best = found;
    }
  };
  take(rung->by_table);
  take(lowest_);
}

// All ways are tried at a few budgets only.
const std::vector<size_t>& Ladder::ways_at(int64_t budget_bytes) {
  const auto scout = static_cast<int32_t>(std::lround(std::log(part_of(budget_bytes)) / std::log(kScouts)));
  const auto [it, added] = ways_.emplace(scout, std::vector<size_t>());
  if (!added) {
    return it->second;
  }
  const double part = std::min(0.95, std::pow(kScouts, std::max<int32_t>(scout, 0)));
  const auto budget = static_cast<double>(std::max(bytes_at(part), lowest_.peak_bytes));
  std::vector<std::pair<double, size_t>> times;
  Stages stages(compact_, graph_, budget);
  for (size_t way = 0; way <= kGreedy; ++way) {
    Found found;
    way == kGreedy ? try_greedy(&stages, &found) : try_worth(way, &stages, &found);
    times.emplace_back(found.peak_bytes > 0 ? found.extra_time : INFINITY, way);
  }
  std::sort(times.begin(), times.end());
  for (size_t k = 0; k < std::min(times.size(), kWays); ++k) {
    it->second.push_back(times[k].second);
  }
  // Forms come from greedy alone, and go into the others' starts.
  if (has_forms_) {
    it->second.insert(it->second.begin(), kGreedy);
  }
  return it->second;
}

// From the best so far. What is faster than `reach` is not taken.
void Ladder::anneal_once(double reach, Stages* stages, Found* best) const {
  const uint64_t pass = best->passes;
  stages->load(best->table);
  anneal(stages, pass_work(pass), kHeats[pass % std::size(kHeats)], pass + 1, options_.progress);
  if (stages->extra_time() >= reach) {
    offer(stages, "local search", best);
  }
  best->passes = pass + 1;
}

}  // namespace encore::plan
