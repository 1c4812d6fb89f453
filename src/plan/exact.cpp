// Shortest paths over (number of steps done, set of resident values). Computing the next step is free, since every
// schedule does that; computing an earlier one costs its time; dropping is free, and only tried where something doesn't
// fit, since more values in memory are never worse.
#include "plan/exact.h"

#include <algorithm>
#include <cmath>
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
  explicit Space(const Compact& g) : graph(g), inputs(g.n + 1), reads(g.n + 1), due(g.n + 2), matters(g.n + 1) {
    for (int32_t i = 0; i <= graph.n; ++i) {
      for (const int32_t input : graph.inputs(i)) {
        inputs[i] |= bit(input);
      }
      for (const int32_t input : graph.reads(i)) {
        reads[i] |= bit(input);
      }
    }
    for (int32_t t = 0; t <= graph.n; ++t) {
      Set later = 0;
      for (int32_t u = t; u <= graph.n; ++u) {
        later |= inputs[u];
      }
      later &= bit(t) - 1;
      due[t] = later;
      for (int32_t i = t - 1; i >= 0; --i) {
        if ((later & bit(i)) != 0) {
          later |= reads[i];
        }
      }
      matters[t] = later;
    }
  }
  // What is at least computed again: what is gone and a first computation will read, and what that takes.
  [[nodiscard]] double still_to_pay(const State& state) const {
    double time = 0;
    Set open = due[state.done] & ~state.resident;
    Set seen = open;
    while (open != 0) {
      const int32_t step = lowest(open);
      open &= open - 1;
      time += graph.time[step];
      const Set more = reads[step] & ~state.resident & ~seen;
      open |= more;
      seen |= more;
    }
    return time;
  }
  [[nodiscard]] bool has_inputs(int32_t step, const State& state) const {
    return ((step == state.done ? inputs : reads)[step] & ~state.resident) == 0;
  }
  [[nodiscard]] int64_t bytes(Set set) const {
    int64_t sum = 0;
    for (; set != 0; set &= set - 1) {
      sum += graph.bytes[lowest(set)];
    }
    return sum;
  }

  const Compact& graph;
  std::vector<Set> inputs;   // Of each step's first computation.
  std::vector<Set> reads;    // Of any other.
  std::vector<Set> due;      // With t steps done: values that a first computation will read.
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
  // Cheapest first, with what is still to pay; of equals the furthest, so that free moves run straight to the end.
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
    const double in_all = cost + space.still_to_pay(state);
    queue.push({{in_all, -state.done}, static_cast<int32_t>(nodes.size()) - 1});
  };
  while (!queue.empty()) {
    const double in_all = queue.top().first.first;
    const int32_t at = queue.top().second;
    queue.pop();
    const Node node = nodes[at];
    if (best[node.state] < node.cost) {
      continue;
    }
    const Set resident = node.state.resident;
    const int32_t done = node.state.done;
    answer.extra_time = std::max(answer.extra_time, in_all);
    if (done == graph.n + 1) {
      answer.finished = true;
      answer.feasible = true;
      answer.extra_time = node.cost;
      answer.schedule = replay(space, nodes, at);
      return answer;
    }
    if (static_cast<int64_t>(best.size()) > max_states) {
      return answer;
    }
    const int64_t used = space.bytes(resident);
    bool too_big = false;
    const auto try_compute = [&](int32_t step) {
      if (!space.has_inputs(step, node.state)) {
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

bool finishes_within(const Compact& graph, int64_t max_states) {
  if (graph.n > kMaxExactSteps) {
    return false;
  }
  double states = 2;
  for (const Set set : Space(graph).matters) {
    states += std::ldexp(1.0, __builtin_popcountll(set));
  }
  return states <= static_cast<double>(max_states);
}

ExactAnswer exact_min_budget(const Compact& graph, int64_t max_states) {
  ExactAnswer answer;
  if (graph.n > kMaxExactSteps) {
    return answer;
  }
  // The same moves, ordered by the peak so far in place of the time.
  const Space space(graph);
  std::vector<Node> nodes{{{0, 0}, 0, -1, 0}};
  std::unordered_map<State, double, Hash> best{{nodes[0].state, 0.0}};
  using Entry = std::pair<std::pair<double, int32_t>, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  queue.push({{0.0, 0}, 0});
  const auto push = [&](State state, double peak, int32_t parent, int32_t op) {
    const auto [it, added] = best.emplace(state, peak);
    if (added || it->second > peak) {
      it->second = peak;
      nodes.push_back({state, peak, parent, op});
      queue.push({{peak, -state.done}, static_cast<int32_t>(nodes.size()) - 1});
    }
  };
  while (!queue.empty()) {
    const int32_t at = queue.top().second;
    queue.pop();
    const Node node = nodes[at];
    const State state = node.state;
    if (best[state] < node.cost) {
      continue;
    }
    if (state.done == graph.n + 1) {
      answer.finished = true;
      answer.feasible = true;
      answer.schedule = replay(space, nodes, at);
      return answer;
    }
    if (static_cast<int64_t>(best.size()) > max_states) {
      return answer;
    }
    const int64_t used = space.bytes(state.resident);
    bool too_big = false;
    const auto try_compute = [&](int32_t step) {
      if (space.has_inputs(step, state) && (step == state.done || graph.may_recompute(step, state.done))) {
        const int32_t now = state.done + (step == state.done ? 1 : 0);
        const Set left = now > graph.n ? 0 : (state.resident | bit(step)) & space.matters[now];
        const int64_t bytes = used + graph.bytes[step] + graph.temp[step] + graph.background[state.done];
        too_big = too_big || static_cast<double>(bytes) > node.cost;
        push({left, now}, std::max(node.cost, static_cast<double>(bytes)), at, step);
      }
    };
    try_compute(state.done);
    for (Set absent = space.matters[state.done] & ~state.resident; absent != 0; absent &= absent - 1) {
      try_compute(lowest(absent));
    }
    // What fits below the peak so far needs no room made.
    for (Set set = too_big ? state.resident : 0; set != 0; set &= set - 1) {
      if (graph.may_recompute(lowest(set), state.done)) {
        push({state.resident & ~bit(lowest(set)), state.done}, node.cost, at, -1 - lowest(set));
      }
    }
  }
  return answer;
}

}  // namespace encore::plan
