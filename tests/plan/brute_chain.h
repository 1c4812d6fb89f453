// All persistent schedules of a small chain, by search over states; shares nothing with the dynamic programme.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include <encore/plan/chain.h>

namespace encore::plan {

/// The Pareto front (peak, time) over all runs in which a stage's forward either forgets its input, keeps it until the
/// backward that reads it, or saves everything. State: which outputs are kept, which stages have saved everything, the
/// output that was made last and isn't kept, and the stage whose backward is next.
class BruteChain {
 public:
  explicit BruteChain(const Chain& chain) : chain_(chain), n_(static_cast<int>(chain.stages.size())) {}

  std::vector<ChainPoint> front() {
    std::multimap<std::pair<double, int64_t>, State> queue;
    push(&queue, {1, 0, -1, n_}, 0, 0);
    while (!queue.empty()) {
      const auto [label, state] = *queue.begin();
      queue.erase(queue.begin());
      const auto [time, peak] = label;
      if (dominated(state, time, peak, true)) {
        continue;
      }
      expand(&queue, state, time, peak);
    }
    std::vector<ChainPoint> points;
    for (const auto& [state, labels] : best_) {
      if (std::get<3>(state) == 0) {
        for (const auto& [time, peak] : labels) {
          points.push_back({peak, time});
        }
      }
    }
    std::sort(points.begin(), points.end(), [](const ChainPoint& a, const ChainPoint& b) {
      return std::make_pair(a.bytes, a.time) < std::make_pair(b.bytes, b.time);
    });
    std::vector<ChainPoint> kept;
    for (const ChainPoint& point : points) {
      if (kept.empty() || point.time < kept.back().time) {
        kept.push_back(point);
      }
    }
    return kept;
  }

 private:
  using State = std::tuple<int, int, int, int>;  // Kept outputs, saved stages, loose output, next backward.
  using Queue = std::multimap<std::pair<double, int64_t>, State>;

  const Stage& stage(int s) const { return chain_.stages[s - 1]; }
  int64_t output(int s) const { return s == 0 ? chain_.input_bytes : stage(s).output_bytes; }

  int64_t resident(const State& state) const {
    const auto [kept, saved, loose, next] = state;
    int64_t bytes = loose >= 0 ? output(loose) : 0;
    for (int s = 0; s <= n_; ++s) {
      bytes += (kept >> s & 1) != 0 ? output(s) : 0;
      bytes += (saved >> s & 1) != 0 ? stage(s).saved_bytes : 0;
    }
    return bytes + (next < n_ ? output(next) : 0);
  }

  bool dominated(const State& state, double time, int64_t peak, bool allow_equal) {
    for (const auto& [t, p] : best_[state]) {
      if (t <= time && p <= peak && !(allow_equal && t == time && p == peak)) {
        return true;
      }
    }
    return false;
  }

  void push(Queue* queue, const State& state, double time, int64_t peak) {
    if (!dominated(state, time, peak, false)) {
      best_[state].insert({time, peak});
      queue->insert({{time, peak}, state});
    }
  }

  void expand(Queue* queue, const State& state, double time, int64_t peak) {
    const auto [kept, saved, loose, next] = state;
    const int64_t now = resident(state);
    for (int s = 1; s <= next; ++s) {
      const bool from_loose = loose == s - 1;
      const bool from_kept = (kept >> (s - 1) & 1) != 0 || (saved >> (s - 1) & 1) != 0;
      if ((saved >> s & 1) != 0 || (!from_loose && (!from_kept || loose >= 0))) {
        continue;
      }
      const int64_t inside = stage(s).saved_bytes - output(s);
      const int64_t during = std::max({peak, now + inside + stage(s).forward_temp_bytes, now + inside + output(s)});
      const double after = time + stage(s).forward_time;
      const int keeps_input = from_loose ? kept | 1 << (s - 1) : kept;
      push(queue, {keeps_input, saved | 1 << s, -1, next}, after, during);
      push(queue, {keeps_input, saved, s, next}, after, during);
      if (from_loose) {
        push(queue, {kept, saved, s, next}, after, during);
      }
    }
    if (next >= 1 && loose < 0 && (saved >> next & 1) != 0 &&
        ((kept >> (next - 1) & 1) != 0 || (saved >> (next - 1) & 1) != 0)) {
      const int64_t seed = next == n_ ? output(n_) : 0;
      const int64_t during = now + seed + output(next - 1) + stage(next).backward_temp_bytes;
      push(queue, {kept & ~(1 << next) & ~(next == 1 ? 1 : 1 << (next - 1)), saved & ~(1 << next), -1, next - 1},
           time + stage(next).backward_time, std::max({peak, during, now + seed}));
    }
  }

  Chain chain_;
  int n_;
  std::map<State, std::set<std::pair<double, int64_t>>> best_;
};

}  // namespace encore::plan
