// Shortest paths over (number of steps done, set of resident values). Computing the next step is free, since every
// schedule does that; computing an earlier one costs its time; dropping is free, and only tried where something doesn't
// fit, since more values in memory are never worse.
#include "plan/exact.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

namespace encore::plan {
namespace {

using Set = uint64_t;

struct State {
  Set resident;
  int32_t done;
  bool operator==(const State& other) const { return resident == other.resident && done == other.done; }
};

struct Hash {
  size_t operator()(const State& state) const {
    uint64_t x = state.resident * 0x9E3779B97F4A7C15ULL + static_cast<uint64_t>(state.done);
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9ULL;
    return x ^ (x >> 32);
  }
};

struct Node {
  State state;
  double cost;
  int32_t parent;
  int32_t op;  // Step computed, or -1 - step dropped.
};

int lowest(Set set) {
  return __builtin_ctzll(set);
}
Set bit(int32_t i) {
  return Set{1} << i;
}

// What every search over these states needs.
struct Space {
  explicit Space(const Compact& g) : graph(g), reads(g.n + 1), matters(g.n + 1) {
    for (int32_t i = 0; i <= graph.n; ++i) {
      for (const int32_t input : graph.inputs(i)) {
        reads[i] |= bit(input);
      }
    }
    for (int32_t t = 0; t <= graph.n; ++t) {
      Set later = 0;
      for (int32_t u = t; u <= graph.n; ++u) {
        later |= reads[u];
      }
      later &= bit(t) - 1;
      for (int32_t i = t - 1; i >= 0; --i) {
        if ((later & bit(i)) != 0) {
          later |= reads[i];
        }
      }
      matters[t] = later;
    }
  }
  [[nodiscard]] int64_t bytes(Set set) const {
    int64_t sum = 0;
    for (; set != 0; set &= set - 1) {
      sum += graph.bytes[lowest(set)];
    }
    return sum;
  }

  const Compact& graph;
  std::vector<Set> reads;    // Inputs of each step.
  std::vector<Set> matters;  // With t steps done: values that anything later may read, directly or in a recomputation.
};

Schedule replay(const Space& space, const std::vector<Node>& nodes, int32_t at) {
  std::vector<int32_t> path;
  for (; nodes[at].parent >= 0; at = nodes[at].parent) {
    path.push_back(at);
  }
  std::reverse(path.begin(), path.end());
  Schedule schedule;
  Set resident = 0;
  for (const int32_t k : path) {
    const Node& node = nodes[k];
    if (node.op >= 0 && node.op < space.graph.n) {
      schedule.push_back({OpKind::kCompute, node.op, 0});
      resident |= bit(node.op);
    }
    for (Set gone = node.op == space.graph.n ? 0 : resident & ~node.state.resident; gone != 0; gone &= gone - 1) {
      schedule.push_back({OpKind::kDrop, lowest(gone), 0});
    }
    resident = node.op == space.graph.n ? resident : resident & node.state.resident;
  }
  return schedule;
}

}  // namespace

ExactAnswer exact_search(const Compact& graph, int64_t budget_bytes, int64_t max_states) {
  ExactAnswer answer;
  if (graph.n > kMaxExactSteps) {
    return answer;
  }
  const Space space(graph);
  std::vector<Node> nodes{{{0, 0}, 0, -1, 0}};
  std::unordered_map<State, double, Hash> best{{nodes[0].state, 0.0}};
  // Cheapest first; of equals the furthest, so that free moves run straight to the end.
  using Entry = std::pair<std::pair<double, int32_t>, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  queue.push({{0.0, 0}, 0});
  const auto push = [&](State state, double cost, int32_t parent, int32_t op) {
    const auto [it, added] = best.emplace(state, cost);
    if (!added && it->second <= cost) {
      return;
    }
    it->second = cost;
    nodes.push_back({state, cost, parent, op});
    queue.push({{cost, -state.done}, static_cast<int32_t>(nodes.size()) - 1});
  };
  while (!queue.empty()) {
    const int32_t at = queue.top().second;
    queue.pop();
    const Node node = nodes[at];
    if (best[node.state] < node.cost) {
      continue;
    }
    const Set resident = node.state.resident;
    const int32_t done = node.state.done;
    answer.extra_time = node.cost;
    if (done == graph.n + 1) {
      answer.finished = true;
      answer.feasible = true;
      answer.schedule = replay(space, nodes, at);
      return answer;
    }
    if (static_cast<int64_t>(nodes.size()) > max_states) {
      return answer;
    }
    const int64_t used = space.bytes(resident);
    bool too_big = false;
    const auto try_compute = [&](int32_t step) {
      if ((space.reads[step] & ~resident) != 0) {
        return;
      }
      if (step < done && !graph.may_recompute(step, done)) {
        return;
      }
      if (used + graph.bytes[step] + graph.temp[step] + graph.background[done] > budget_bytes) {
        too_big = true;
        return;
      }
      const int32_t now = done + (step == done ? 1 : 0);
      const Set left = now > graph.n ? 0 : (resident | bit(step)) & space.matters[now];
      push({left, now}, node.cost + (step == done ? 0 : graph.time[step]), at, step);
    };
    try_compute(done);
    for (Set absent = space.matters[done] & ~resident; absent != 0; absent &= absent - 1) {
      try_compute(lowest(absent));
    }
    if (too_big) {
      for (Set set = resident; set != 0; set &= set - 1) {
        if (graph.may_recompute(lowest(set), done)) {
          push({resident & ~bit(lowest(set)), done}, node.cost, at, -1 - lowest(set));
        }
      }
    }
  }
  answer.finished = true;
  return answer;
}

std::optional<int64_t> exact_min_budget(const Compact& graph, int64_t max_states) {
  if (graph.n > kMaxExactSteps) {
    return std::nullopt;
  }
  // The same moves, ordered by the peak so far in place of the time.
  const Space space(graph);
  std::unordered_map<State, int64_t, Hash> best{{{0, 0}, 0}};
  using Entry = std::pair<std::pair<int64_t, int32_t>, State>;
  const auto later = [](const Entry& a, const Entry& b) { return a.first > b.first; };
  std::priority_queue<Entry, std::vector<Entry>, decltype(later)> queue(later);
  queue.push({{0, 0}, {0, 0}});
  const auto push = [&](State state, int64_t peak) {
    const auto [it, added] = best.emplace(state, peak);
    if (added || it->second > peak) {
      it->second = peak;
      queue.push({{peak, -state.done}, state});
    }
  };
  while (!queue.empty()) {
    const int64_t peak = queue.top().first.first;
    const State state = queue.top().second;
    queue.pop();
    if (best[state] < peak) {
      continue;
    }
    if (state.done == graph.n + 1) {
      return peak;
    }
    if (static_cast<int64_t>(best.size()) > max_states) {
      return std::nullopt;
    }
    const int64_t used = space.bytes(state.resident);
    const auto try_compute = [&](int32_t step) {
      if ((space.reads[step] & ~state.resident) == 0 && (step == state.done || graph.may_recompute(step, state.done))) {
        const int32_t now = state.done + (step == state.done ? 1 : 0);
        const Set left = now > graph.n ? 0 : (state.resident | bit(step)) & space.matters[now];
        push({left, now}, std::max(peak, used + graph.bytes[step] + graph.temp[step] + graph.background[state.done]));
      }
    };
    try_compute(state.done);
    for (Set absent = space.matters[state.done] & ~state.resident; absent != 0; absent &= absent - 1) {
      try_compute(lowest(absent));
    }
    for (Set set = state.resident; set != 0; set &= set - 1) {
      if (graph.may_recompute(lowest(set), state.done)) {
        push({state.resident & ~bit(lowest(set)), state.done}, peak);
      }
    }
  }
  return std::nullopt;
}

}  // namespace encore::plan
