// The rungs and what is found on them.
#include "plan/ladder.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <encore/plan/simulate.h>

#include "plan/bounds.h"
#include "plan/evicting.h"
#include "plan/exact.h"
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
// An effort is meant for a whole plan; about so many rungs share it.
constexpr int64_t kShared = 14;
// Above this part of the range they are fewer.
constexpr double kHigh = 0.45;
constexpr int64_t kSharedHigh = 4;
// Rungs lie at every percent of what the plain run adds to the bytes that always rest, or closer where the least budget
// leaves few of them.
constexpr int32_t kRungs = 100;
// Above the least budget they begin so much closer, and each gap is so much wider than the one before.
constexpr double kFiner = 8;
constexpr double kWider = 1.35;
// Rungs of small graphs get more work where the start is further above the bound than this part of the time.
constexpr double kFar = 0.25;
int64_t more_work(int32_t n) {
  return n <= 64 ? 16 : n <= 200 ? 4 : 1;
}

// The exact search is tried on every rung of graphs up to this size.
constexpr int32_t kExactEverywhere = 32;
constexpr int64_t kCutWork = 10 * kWorkUnit;

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

// So many ways to start, the best at a scout, are tried on the rungs near it. Scouts lie at these powers.
constexpr size_t kWays = 2;
constexpr double kScouts = 0.75;
constexpr size_t kGreedy = std::size(kWorths);  // The way that is none of the worths.

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
    best = &rung(budget_bytes);
  }
  auto at = std::upper_bound(budgets_.begin(), budgets_.end(), budget_bytes);
  while (at != budgets_.begin()) {
    --at;
    // Whatever is lower is slower still.
    if (best != nullptr && (best->proven || bound(*at) >= best->extra_time * (1 - 1e-12))) {
      break;
    }
    const Found& found = rung(*at);
    if (best == nullptr || found.extra_time < best->extra_time * (1 - 1e-12)) {
      best = &found;
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
    for (auto& [bytes, found] : found_) {
      const bool may_win = bytes <= budget_bytes && !found.proven && !found.table.again.empty() &&
                           bound(bytes) < fastest(budget_bytes)->extra_time;
      if (may_win && !over()) {
        Stages stages(compact_, graph_, static_cast<double>(bytes));
        anneal_once(&stages, &found);
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
  answer.proven = best->proven && here != found_.end() && here->second.proven;
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

const Ladder::Found& Ladder::rung(int64_t budget_bytes) {
  const auto known = found_.find(budget_bytes);
  if (known != found_.end()) {
    return known->second;
  }
  Found best;
  if (small_ || (try_exact_ && is_exact_rung(budget_bytes))) {
    ExactAnswer exact = exact_search(compact_, budget_bytes, options_.exact_states);
    double& bound_here = bounds_.emplace(budget_bytes, bound(budget_bytes)).first->second;
    bound_here = std::max(bound_here, exact.extra_time);
    if (exact.finished) {
      best = {exact.extra_time,
              simulate(graph_, exact.schedule).peak_bytes,
              "exact search",
              true,
              std::move(exact.schedule),
              {}};
    }
  }
  if (!best.proven) {
    search(budget_bytes, &best);
  }
  return found_.emplace(budget_bytes, std::move(best)).first->second;
}

void Ladder::search(int64_t budget_bytes, Found* best) {
  Stages stages(compact_, graph_, static_cast<double>(budget_bytes));
  if (!lowest_.table.again.empty()) {
    stages.load(lowest_.table);
    relax(&stages, start_work(compact_.n));
    offer(&stages, "from the lowest peak", best);
  }
  for (const size_t way : ways_at(budget_bytes)) {
    way == kGreedy ? try_greedy(&stages, best) : try_worth(way, &stages, best);
  }
  try_online(best->peak_bytes > 0 ? best->extra_time : lowest_.extra_time, &stages, best);
  Found by_table;
  if (best->table.again.empty()) {
    // As a table nothing fits so far.
    stages.load(Stages(compact_, graph_, 0).table());
    make_fit(&stages, start_work(compact_.n));
    if (cool_into(&stages, hot_work(compact_.n), 1)) {
      relax(&stages, start_work(compact_.n));
      offer(&stages, "local search", &by_table);
    }
  } else {
    by_table = *best;
  }
  const bool far = by_table.extra_time - bound(budget_bytes) > kFar * compact_.total_time;
  const bool high = part_of(budget_bytes) > kHigh;
  int64_t left = effort_ / (high ? kSharedHigh : kShared) * (far ? more_work(compact_.n) : 1);
  const double start = by_table.extra_time;
  int64_t spent = 0;
  while (!by_table.table.again.empty() && pass_work(by_table.passes) <= left) {
    left -= pass_work(by_table.passes);
    spent += pass_work(by_table.passes);
    anneal_once(&stages, &by_table);
    if (spent > kPatience * compact_.n && by_table.extra_time >= start) {
      left /= kGrowth;
    }
  }
  for (const Found* found : {&by_table, &lowest_}) {
    if (found->peak_bytes > 0 && (best->peak_bytes == 0 || found->extra_time < best->extra_time)) {
      *best = *found;
    }
  }
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

// Each pass has more work than the one before, and starts from the best of all.
void Ladder::anneal_once(Stages* stages, Found* best) const {
  const uint64_t pass = best->passes;
  stages->load(best->table);
  anneal(stages, pass_work(pass), kHeats[pass % std::size(kHeats)], pass + 1, options_.progress);
  offer(stages, "local search", best);
  best->passes = pass + 1;
}

}  // namespace encore::plan
