// The exact dynamic programme over persistent schedules of a chain (Beaumont et al.), with time as a step function of
// memory. A subproblem (first, last) starts with the input of stage `first` in memory, which isn't counted, and ends
// with the gradient of that input. Either all of stage `first` is kept until its backward, or the stages up to some
// `split` run without saving, the output of `split` is kept for the right part, and then the left part starts again.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include <encore/error.h>
#include <encore/plan/chain.h>

#include "plan/chain_corners.h"

namespace encore::plan {
namespace {

// Time grows with the third power of the stages and memory with the second.
constexpr size_t kMaxStages = 2000;

// So many columns of subproblems are solved together, since they read the same curves.
constexpr int32_t kTile = 8;

}  // namespace

struct ChainSolution::State {
  Chain chain;
  int32_t n = 0;
  int64_t limit = INT64_MAX;    // Corners above are left out.
  double rounding = 0;          // Corners may move to the right by this part of the budget, in all.
  int64_t least_budget = 0;     // No budget below this is feasible.
  std::vector<double> forward;  // Prefix sums of forward times,
  std::vector<double> plain;    // and of all times.
  std::vector<int32_t> id;      // (first, last) and (last, first) -> curve; equal runs of stages share one.
  std::vector<Curve> curves;
  std::vector<std::vector<uint16_t>> winners;  // By curve: splits, less the first stage, that the best come from.
  Corners best_so_far, below, scratch;
  Curve result;
  bool thinned = false;

  explicit State(Chain c) : chain(std::move(c)), n(static_cast<int32_t>(chain.stages.size())) {
    forward.push_back(0);
    plain.push_back(0);
    for (const Stage& stage : chain.stages) {
      forward.push_back(forward.back() + stage.forward_time);
      plain.push_back(plain.back() + stage.forward_time + stage.backward_time);
    }
    id.assign((static_cast<size_t>(n) + 1) * (n + 1), -1);
  }

  [[nodiscard]] const Stage& stage(int32_t s) const { return chain.stages[s - 1]; }
  [[nodiscard]] int64_t output(int32_t s) const { return s == 0 ? chain.input_bytes : stage(s).output_bytes; }
  [[nodiscard]] int64_t inside(int32_t s) const { return stage(s).saved_bytes - stage(s).output_bytes; }
  // The gradient that waits while stages before `last` run; that of the last stage doesn't exist yet.
  [[nodiscard]] int64_t waiting(int32_t last) const { return last == n ? 0 : output(last); }
  [[nodiscard]] int64_t running(int32_t s) const {
    return inside(s) + std::max(stage(s).forward_temp_bytes, output(s));
  }
  [[nodiscard]] int64_t backward(int32_t s) const {
    return 2 * output(s) + inside(s) + output(s - 1) + stage(s).backward_temp_bytes;
  }
  [[nodiscard]] int64_t keep_need(int32_t first, int32_t last) const {
    return std::max(waiting(last) + running(first), backward(first));
  }
  [[nodiscard]] double keep_time(int32_t s) const { return stage(s).forward_time + stage(s).backward_time; }
  [[nodiscard]] size_t index(int32_t first, int32_t last) const {
    return static_cast<size_t>(id[static_cast<size_t>(first) * (n + 1) + last]);
  }
  [[nodiscard]] const Curve& curve(int32_t first, int32_t last) const { return curves[index(first, last)]; }

  void number_subproblems();
  [[nodiscard]] std::vector<std::pair<int32_t, int32_t>> order() const;
  void solve_one(int32_t first, int32_t last, Curve* out);
  void keep_first(int32_t first, int32_t last);
  [[nodiscard]] std::vector<int32_t> splits(int32_t first, int32_t last) const;
  void finish_one(int32_t first, int32_t last, Curve* out);
  void thin(int32_t length, Curve* curve);
  void emit(int32_t first, int32_t last, int64_t bytes, Schedule* out) const;
};

// Runs of equal stages get the same number.
void ChainSolution::State::number_subproblems() {
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, double, double>, int32_t> classes;
  std::vector<int32_t> class_of(n + 1);
  for (int32_t s = 1; s <= n; ++s) {
    const Stage& it = stage(s);
    const auto key = std::make_tuple(it.output_bytes, it.saved_bytes, it.forward_temp_bytes, it.backward_temp_bytes,
                                     it.forward_time, it.backward_time);
    class_of[s] = classes.emplace(key, static_cast<int32_t>(classes.size())).first->second;
  }
  // A run is its shorter run plus one stage; the first is its class and the bytes of its input.
  std::map<std::tuple<int64_t, int32_t, bool>, int32_t> runs;
  std::vector<int32_t> open(static_cast<size_t>(n) + 1);  // The run (first, last) as one that isn't the chain's end.
  for (int32_t length = 1; length <= n; ++length) {
    for (int32_t first = 1; first + length - 1 <= n; ++first) {
      const int32_t last = first + length - 1;
      const int64_t shorter = length == 1 ? -1 - output(first - 1) : open[first];
      const auto next = static_cast<int32_t>(runs.size());
      const int32_t run = runs.emplace(std::make_tuple(shorter, class_of[last], last == n), next).first->second;
      id[static_cast<size_t>(first) * (n + 1) + last] = run;
      id[static_cast<size_t>(last) * (n + 1) + first] = run;
      open[first] = run;
    }
  }
  curves.resize(runs.size());
  winners.resize(runs.size());
}

// One of each number, after all that it needs.
std::vector<std::pair<int32_t, int32_t>> ChainSolution::State::order() const {
  std::vector<std::pair<int32_t, int32_t>> order;
  std::vector<char> seen(curves.size(), 0);
  for (int32_t tile = 1; tile <= n; tile += kTile) {
    const int32_t end = std::min(tile + kTile - 1, n);
    for (int32_t first = end; first >= 1; --first) {
      for (int32_t last = std::max(first, tile); last <= end; ++last) {
        if (std::exchange(seen[index(first, last)], 1) == 0) {
          order.emplace_back(first, last);
        }
      }
    }
  }
  return order;
}

void ChainSolution::State::solve_one(int32_t first, int32_t last, Curve* out) {
  if (first == last) {
    const int64_t bytes = std::max(keep_need(first, last), last == n ? inside(last) + 2 * output(last) : 0);
    *out = {{bytes, keep_time(first)}, kEnd};
    return;
  }
  keep_first(first, last);
  // What it takes to run up to each split without saving.
  std::vector<int64_t> least(last - first, 0);
  for (int32_t split = first; split < last; ++split) {
    least[split - first] = std::max(split == first ? 0 : least[split - first - 1],
                                    waiting(last) + (split == first ? 0 : output(split - 1)) + running(split));
  }
  for (const int32_t split : splits(first, last)) {
    const Curve& left = curve(first, split);
    const Curve& right = curve(last, split + 1);  // That way round they lie next to each other.
    if (left.size() < 2 || right.size() < 2 || least[split - first] > limit) {
      continue;
    }
    const double time = forward[split] - forward[first - 1];
    const double floor = (time + plain[last] - plain[first - 1]) * kFaster;
    corners_below({left, right, output(split), least[split - first], time, floor, split}, best_so_far, &below);
    if (!below.empty()) {
      merge_into(below, &best_so_far, &scratch);
    }
  }
  finish_one(first, last, out);
}

// Keeping all of the first stage is the best until a split is better.
void ChainSolution::State::keep_first(int32_t first, int32_t last) {
  best_so_far.clear();
  for (const ChainPoint& point : curve(first + 1, last)) {
    if (point.bytes >= kNever) {
      break;
    }
    const int64_t bytes = std::max(point.bytes + inside(first) + output(first), keep_need(first, last));
    const double time = keep_time(first) + point.time;
    if (!best_so_far.empty() && best_so_far.back().bytes == bytes) {
      best_so_far.back().time = time;
    } else if (best_so_far.empty() || faster(time, best_so_far.back().time)) {
      best_so_far.push_back({{bytes, time}, 0});
    }
  }
  best_so_far.push_back({kEnd, 0});
}

// The better the best is early, the more of the other splits is lost at a glance: those that won one stage less come
// first, then a few far apart.
std::vector<int32_t> ChainSolution::State::splits(int32_t first, int32_t last) const {
  std::vector<int32_t> splits;
  std::vector<char> seen(last - first, 0);
  const auto add = [&](int32_t split) {
    if (split < last && std::exchange(seen[split - first], 1) == 0) {
      splits.push_back(split);
    }
  };
  const auto& before = winners[index(first, last - 1)];
  const auto& after = winners[index(first + 1, last)];
  for (size_t k = 0; k < std::max(before.size(), after.size()); ++k) {
    if (k < before.size()) {
      add(first + before[k]);
    }
    if (k < after.size()) {
      add(first + 1 + after[k]);
    }
  }
  const int32_t apart = std::max<int32_t>(1, (last - first) / 8);
  for (int32_t start = 0; start < apart; ++start) {
    for (int32_t split = first + start; split < last; split += apart) {
      add(split);
    }
  }
  return splits;
}

void ChainSolution::State::finish_one(int32_t first, int32_t last, Curve* out) {
  best_so_far.pop_back();
  while (!best_so_far.empty() && best_so_far.back().bytes > limit) {
    best_so_far.pop_back();
  }
  std::vector<uint16_t>& won = winners[index(first, last)];
  std::vector<int32_t> count(last - first, 0);
  won.clear();
  out->clear();
  out->reserve(best_so_far.size() + 1);
  for (const Corner& corner : best_so_far) {
    out->push_back(corner);
    if (corner.split > 0 && count[corner.split - first]++ == 0) {
      won.push_back(static_cast<uint16_t>(corner.split - first));
    }
  }
  std::sort(won.begin(), won.end(),
            [&](uint16_t x, uint16_t y) { return count[x] != count[y] ? count[x] > count[y] : x < y; });
  thin(last - first + 1, out);
  out->push_back(kEnd);
}

// A corner at m belongs to budgets of at least m, so it may move by the rounding times m. It moves at most once for
// each length of the subproblems around it; the shares of the lengths add up to one.
void ChainSolution::State::thin(int32_t length, Curve* curve) {
  if (rounding == 0 || curve->size() < 3) {
    return;
  }
  const double share = rounding * 2.0 * length / (static_cast<double>(n) * (n + 1));
  // The first corner stays: it decides what is feasible. Of each further group of close ones the last stays.
  size_t kept = 1;
  for (size_t k = 1; k < curve->size();) {
    const int64_t start = (*curve)[k].bytes;
    const auto reach = static_cast<int64_t>(share * static_cast<double>(std::max(start, least_budget)));
    while (k + 1 < curve->size() && (*curve)[k + 1].bytes - start <= reach) {
      ++k;
      thinned = true;
    }
    (*curve)[kept++] = (*curve)[k++];
  }
  curve->resize(kept);
}

void ChainSolution::State::emit(int32_t first, int32_t last, int64_t bytes, Schedule* out) const {
  const ChainSteps steps{n};
  const auto compute = [&](int32_t step) { out->push_back({OpKind::kCompute, step, 0}); };
  const auto drop = [&](int32_t step) { out->push_back({OpKind::kDrop, step, 0}); };
  const auto backward_of = [&](int32_t s) {
    compute(steps.gradient(s - 1));
    drop(steps.gradient(s));
    drop(steps.output(s));
    drop(steps.saved(s));
  };
  if (first == last) {
    compute(steps.saved(first));
    compute(steps.output(first));
    if (last == n) {
      compute(steps.gradient(n));
    }
    backward_of(first);
    return;
  }
  double best = INFINITY;
  int32_t best_split = 0;  // 0: keep stage `first`.
  const int64_t inner = bytes - inside(first) - output(first);
  if (keep_need(first, last) <= bytes) {
    best = keep_time(first) + time_within(curve(first + 1, last), inner);
  }
  int64_t least = 0;
  for (int32_t split = first; split < last; ++split) {
    least = std::max(least, waiting(last) + (split == first ? 0 : output(split - 1)) + running(split));
    if (least > bytes) {
      break;
    }
    const double time = forward[split] - forward[first - 1] + time_within(curve(first, split), bytes) +
                        time_within(curve(split + 1, last), bytes - output(split));
    if (faster(time, best)) {
      best = time;
      best_split = split;
    }
  }
  if (best_split == 0) {
    compute(steps.saved(first));
    compute(steps.output(first));
    emit(first + 1, last, inner, out);
    backward_of(first);
    return;
  }
  for (int32_t s = first; s <= best_split; ++s) {
    compute(steps.saved(s));
    compute(steps.output(s));
    drop(steps.saved(s));
    if (s > first) {
      drop(steps.output(s - 1));
    }
  }
  emit(best_split + 1, last, bytes - output(best_split), out);
  drop(steps.output(best_split));
  emit(first, best_split, bytes, out);
}

const std::vector<ChainPoint>& ChainSolution::curve() const {
  return state_->result;
}

double ChainSolution::rounding() const {
  return state_->thinned ? state_->rounding : 0;
}

Schedule ChainSolution::schedule(int64_t budget_bytes) const {
  if (budget_bytes < min_feasible_bytes()) {
    throw InvalidArgument("chain: the budget is " + std::to_string(budget_bytes) + " bytes, at least " +
                          std::to_string(min_feasible_bytes()) + " are needed");
  }
  Schedule schedule{{OpKind::kCompute, 0, 0}};
  state_->emit(1, state_->n, budget_bytes - state_->chain.input_bytes, &schedule);
  schedule.push_back({OpKind::kDrop, 0, 0});
  return schedule;
}

ChainSolution solve(const Chain& chain, const ChainOptions& options) {
  check(chain);
  if (chain.stages.size() > kMaxStages) {
    throw InvalidArgument("chain: " + std::to_string(chain.stages.size()) +
                          " stages; the exact solution is for up to " + std::to_string(kMaxStages) +
                          ", plan the graph of the chain instead");
  }
  if (!(options.max_rounding >= 0)) {
    throw InvalidArgument("chain: max_rounding must not be negative");
  }
  auto state = std::make_shared<ChainSolution::State>(chain);
  for (int32_t s = 1; s <= state->n; ++s) {
    state->least_budget = std::max(state->least_budget, state->backward(s) + chain.input_bytes);
  }
  state->rounding = options.exact ? 0 : options.max_rounding;
  state->number_subproblems();
  const auto order = state->order();
  const auto run = [&](int64_t limit) {
    state->limit = limit;
    for (const auto& [first, last] : order) {
      state->solve_one(first, last, &state->curves[state->index(first, last)]);
    }
  };
  run(options.max_bytes > 0 ? options.max_bytes - std::min(options.max_bytes, chain.input_bytes) : INT64_MAX);
  if (state->curve(1, state->n).size() < 2) {
    run(INT64_MAX);  // The least feasible budget is above the limit, and is what the caller wants to know.
  }
  state->winners.clear();
  state->result = state->curve(1, state->n);
  state->result.pop_back();
  for (ChainPoint& point : state->result) {
    point.bytes += chain.input_bytes;
  }
  ChainSolution solution;
  solution.state_ = std::move(state);
  return solution;
}

}  // namespace encore::plan
