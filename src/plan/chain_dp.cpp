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

namespace encore::plan {
namespace {

using Curve = std::vector<ChainPoint>;

// Time grows with the third power of the stages and memory with the second.
constexpr size_t kMaxStages = 2000;

// Ignores differences of times that only come from the order of additions.
bool faster(double a, double b) {
  return a < b * (1 - 1e-12);
}

double time_within(const Curve& curve, int64_t bytes) {
  auto it = std::upper_bound(curve.begin(), curve.end(), bytes,
                             [](int64_t limit, const ChainPoint& point) { return limit < point.bytes; });
  return it == curve.begin() ? INFINITY : std::prev(it)->time;
}

// The last corner within `bytes`, searched from `from` on, which is within.
size_t seek(const Curve& curve, size_t from, int64_t bytes) {
  size_t step = 1;
  size_t low = from;
  while (low + step < curve.size() && curve[low + step].bytes <= bytes) {
    low += step;
    step *= 2;
  }
  size_t high = std::min(low + step, curve.size());
  while (low + 1 < high) {
    const size_t middle = (low + high) / 2;
    (curve[middle].bytes <= bytes ? low : high) = middle;
  }
  return low;
}

// Appends the corners of left(m) + right(m - shift) + time, m >= least, where they are below `best`. Most splits lose
// nearly everywhere: as times only fall, a stretch is lost as a whole if its end isn't below the start of `best`'s.
void add_split(const Curve& left, const Curve& right, int64_t shift, int64_t least, double time, const Curve& best,
               Curve* out) {
  int64_t bytes = std::max({least, left.front().bytes, right.front().bytes + shift});
  size_t a = seek(left, 0, bytes);
  size_t b = seek(right, 0, bytes - shift);
  size_t c = best.empty() || best.front().bytes > bytes ? 0 : seek(best, 0, bytes);
  const auto bar = [&] { return best.empty() || best[c].bytes > bytes ? INFINITY : best[c].time; };
  const auto value = [&](size_t i, size_t k) { return time + left[i].time + right[k].time; };
  size_t stride = 16;
  size_t walk = 0;  // Corners to go one by one before the next attempt to jump.
  while (true) {
    if (faster(value(a, b), bar())) {
      out->push_back({bytes, value(a, b)});
    } else if (walk == 0) {
      // The end of the stretch: the nearer of both, unless one curve has no corners left.
      const size_t far_a = std::min(a + stride, left.size() - 1);
      const size_t far_b = std::min(b + stride, right.size() - 1);
      const int64_t end =
          std::min(far_a > a ? left[far_a].bytes : INT64_MAX, far_b > b ? right[far_b].bytes + shift : INT64_MAX);
      if (end == INT64_MAX) {
        return;
      }
      const size_t next_a = seek(left, a, end);
      const size_t next_b = seek(right, b, end - shift);
      if (!faster(value(next_a, next_b), bar())) {
        a = next_a;
        b = next_b;
        bytes = end;
        c = best.front().bytes > bytes ? 0 : seek(best, c, bytes);
        stride *= 2;
        continue;
      }
      walk = stride;
      stride = std::max<size_t>(stride / 2, 4);
    } else {
      --walk;
    }
    const int64_t next_a = a + 1 < left.size() ? left[a + 1].bytes : INT64_MAX;
    const int64_t next_b = b + 1 < right.size() ? right[b + 1].bytes + shift : INT64_MAX;
    bytes = std::min(next_a, next_b);
    if (bytes == INT64_MAX) {
      return;
    }
    a += next_a == bytes ? 1 : 0;
    b += next_b == bytes ? 1 : 0;
    while (c + 1 < best.size() && best[c + 1].bytes <= bytes) {
      ++c;
    }
  }
}

// The lower envelope of two step functions.
void merge(const Curve& a, const Curve& b, Curve* out) {
  out->clear();
  size_t i = 0;
  size_t k = 0;
  double best = INFINITY;
  while (i < a.size() || k < b.size()) {
    const bool take_a = k == b.size() || (i < a.size() && a[i].bytes <= b[k].bytes);
    const ChainPoint& point = take_a ? a[i++] : b[k++];
    if (faster(point.time, best)) {
      if (!out->empty() && out->back().bytes == point.bytes) {
        out->back().time = point.time;
      } else {
        out->push_back(point);
      }
      best = point.time;
    }
  }
}

}  // namespace

struct ChainSolution::State {
  Chain chain;
  int32_t n = 0;
  int64_t limit = INT64_MAX;    // Corners above are left out.
  double rounding = 0;          // Corners may move to the right by this part of the budget, in all.
  int64_t least_budget = 0;     // No budget below this is feasible.
  std::vector<double> forward;  // Prefix sums of forward times.
  std::vector<int32_t> id;      // (first, last) -> curve; equal runs of stages share one.
  std::vector<Curve> curves;
  Curve result;
  bool thinned = false;

  explicit State(Chain c) : chain(std::move(c)), n(static_cast<int32_t>(chain.stages.size())) {
    forward.push_back(0);
    for (const Stage& stage : chain.stages) {
      forward.push_back(forward.back() + stage.forward_time);
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
  [[nodiscard]] const Curve& curve(int32_t first, int32_t last) const {
    return curves[id[static_cast<size_t>(first) * (n + 1) + last]];
  }

  void number_subproblems(std::vector<std::pair<int32_t, int32_t>>* order);
  void solve_one(int32_t first, int32_t last, Curve* out);
  void thin(int32_t length, Curve* curve);
  void emit(int32_t first, int32_t last, int64_t bytes, Schedule* out) const;
};

// Runs of equal stages get the same number; `order` lists one of each, shorter ones first.
void ChainSolution::State::number_subproblems(std::vector<std::pair<int32_t, int32_t>>* order) {
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
      const auto number = [&](bool end) {
        const auto [it, added] =
            runs.emplace(std::make_tuple(shorter, class_of[last], end), static_cast<int32_t>(runs.size()));
        return std::make_pair(it->second, added);
      };
      const auto [run, added] = number(last == n);
      if (added) {
        order->emplace_back(first, last);
        curves.resize(std::max(curves.size(), static_cast<size_t>(run) + 1));
      }
      id[static_cast<size_t>(first) * (n + 1) + last] = run;
      open[first] = run;
    }
  }
}

void ChainSolution::State::solve_one(int32_t first, int32_t last, Curve* out) {
  if (first == last) {
    out->assign(1,
                {std::max(keep_need(first, last), last == n ? inside(last) + 2 * output(last) : 0), keep_time(first)});
    return;
  }
  Curve candidate;
  Curve merged;
  const Curve& rest = curve(first + 1, last);
  for (const ChainPoint& point : rest) {
    candidate.push_back(
        {std::max(point.bytes + inside(first) + output(first), keep_need(first, last)), keep_time(first) + point.time});
  }
  merge(candidate, {}, out);
  // What it takes to run up to each split without saving.
  std::vector<int64_t> least(last - first, 0);
  for (int32_t split = first; split < last; ++split) {
    least[split - first] = std::max(split == first ? 0 : least[split - first - 1],
                                    waiting(last) + (split == first ? 0 : output(split - 1)) + running(split));
  }
  // A few splits far apart go first: the better the curve is early, the more of the others is lost at a glance.
  const int32_t apart = std::max<int32_t>(1, (last - first) / 8);
  for (int32_t start = 0; start < apart; ++start) {
    for (int32_t split = first + start; split < last; split += apart) {
      const Curve& left = curve(first, split);
      const Curve& right = curve(split + 1, last);
      if (left.empty() || right.empty() || least[split - first] > limit) {
        continue;
      }
      candidate.clear();
      add_split(left, right, output(split), least[split - first], forward[split] - forward[first - 1], *out,
                &candidate);
      if (!candidate.empty()) {
        merge(*out, candidate, &merged);
        out->swap(merged);
      }
    }
  }
  while (!out->empty() && out->back().bytes > limit) {
    out->pop_back();
  }
  thin(last - first + 1, out);
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
  std::vector<std::pair<int32_t, int32_t>> order;
  state->number_subproblems(&order);
  const auto run = [&](int64_t limit) {
    state->limit = limit;
    for (const auto& [first, last] : order) {
      auto& curve = state->curves[state->id[static_cast<size_t>(first) * (state->n + 1) + last]];
      curve.clear();
      state->solve_one(first, last, &curve);
    }
  };
  run(options.max_bytes > 0 ? options.max_bytes - std::min(options.max_bytes, chain.input_bytes) : INT64_MAX);
  if (state->curve(1, state->n).empty()) {
    run(INT64_MAX);  // The least feasible budget is above the limit, and is what the caller wants to know.
  }
  state->result = state->curve(1, state->n);
  for (ChainPoint& point : state->result) {
    point.bytes += chain.input_bytes;
  }
  ChainSolution solution;
  solution.state_ = std::move(state);
  return solution;
}

}  // namespace encore::plan
