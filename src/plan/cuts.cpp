// Maximum flows (Dinic) with rising capacities.
#include "plan/cuts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace encore::plan {
namespace {

constexpr int64_t kInfinite = int64_t{1} << 60;

class Flow {
 public:
  explicit Flow(int32_t nodes) : first_(nodes, -1), level_(nodes), next_(nodes) {}

  int32_t add(int32_t from, int32_t to, int64_t capacity) {
    const auto id = static_cast<int32_t>(to_.size());
    to_.insert(to_.end(), {to, from});
    left_.insert(left_.end(), {capacity, 0});
    after_.insert(after_.end(), {first_[from], first_[to]});
    first_[from] = id;
    first_[to] = id + 1;
    return id;
  }
  void raise(int32_t edge, int64_t by) { left_[edge] += by; }

  /// More flow from `source` to `sink`, until there is no more or the work is done.
  int64_t augment(int32_t source, int32_t sink, int64_t* work) {
    int64_t sum = 0;
    while (*work > 0 && rank(source, sink, work)) {
      next_ = first_;
      while (const int64_t flow = push(source, sink, work)) {
        sum += flow;
      }
    }
    return sum;
  }

 private:
  bool rank(int32_t source, int32_t sink, int64_t* work) {
    std::fill(level_.begin(), level_.end(), -1);
    level_[source] = 0;
    queue_.assign(1, source);
    for (size_t k = 0; k < queue_.size() && level_[sink] < 0; ++k) {
      for (int32_t edge = first_[queue_[k]]; edge >= 0; edge = after_[edge]) {
        --*work;
        if (left_[edge] > 0 && level_[to_[edge]] < 0) {
          level_[to_[edge]] = level_[queue_[k]] + 1;
          queue_.push_back(to_[edge]);
        }
      }
    }
    return level_[sink] >= 0;
  }

  // One path, found without recursion: paths are as long as the graph is deep.
  int64_t push(int32_t source, int32_t sink, int64_t* work) {
    path_.clear();
    int32_t at = source;
    while (at != sink) {
      int32_t& edge = next_[at];
      while (edge >= 0 && (left_[edge] <= 0 || level_[to_[edge]] != level_[at] + 1)) {
        edge = after_[edge];
        --*work;
      }
      if (*work <= 0) {
        return 0;
      }
      if (edge >= 0) {
        path_.push_back(edge);
        at = to_[edge];
      } else if (path_.empty()) {
        return 0;
      } else {
        level_[at] = -1;
        at = to_[path_.back() ^ 1];
        path_.pop_back();
      }
    }
    int64_t flow = kInfinite;
    for (const int32_t edge : path_) {
      flow = std::min(flow, left_[edge]);
    }
    for (const int32_t edge : path_) {
      left_[edge] -= flow;
      left_[edge ^ 1] += flow;
    }
    *work -= 2 * static_cast<int64_t>(path_.size());
    return flow;
  }

  std::vector<int32_t> first_, to_, after_;
  std::vector<int64_t> left_;
  std::vector<int32_t> level_, next_, queue_, path_;
};

// The stages in which the plain run holds most, not too close to each other.
std::vector<int32_t> full_stages(const Compact& graph, int32_t count) {
  std::vector<int32_t> chosen;
  for (const int32_t t : by_bytes_held(graph)) {
    const bool apart =
        std::all_of(chosen.begin(), chosen.end(), [&](int32_t other) { return std::abs(other - t) > graph.n / 40; });
    if (apart && static_cast<int32_t>(chosen.size()) < count) {
      chosen.push_back(t);
    }
  }
  return chosen;
}

}  // namespace

CutBounds::CutBounds(const Compact& graph, const Graph& source, int64_t max_work) {
  constexpr int32_t kStages = 6;
  constexpr int32_t kPrices = 14;
  if (graph.total_time <= 0) {
    return;
  }
  // Times as whole numbers, rounded down.
  const double scale = 1e12 / graph.total_time;
  const auto whole = [&](double time) { return static_cast<int64_t>(std::min(time * scale, 1e15)); };
  const double bytes = std::max(1.0, std::accumulate(graph.bytes.begin(), graph.bytes.end(), 0.0));
  const std::vector<int32_t> stages = full_stages(graph, kStages);
  for (const int32_t t : stages) {
    // A node for "there after t" and one for "computed again after t".
    const int32_t start = 2 * t;
    const int32_t end = 2 * t + 1;
    Flow flow(2 * t + 2);
    int64_t taken = graph.bytes[t] + graph.temp[t] + graph.background[t];
    const Span reads = graph.inputs(t);
    std::vector<std::pair<int32_t, int32_t>> kept;  // Edge and step.
    for (int32_t i = 0; i < t; ++i) {
      const bool read = std::binary_search(reads.begin(), reads.end(), i);
      if (read || graph.held_until[i] >= t) {
        taken += graph.bytes[i];
        continue;  // There at no price.
      }
      if (graph.users(i).size() > 0 && graph.users(i).end()[-1] > t) {
        flow.add(start, 2 * i, kInfinite);
      }
      kept.emplace_back(flow.add(2 * i, 2 * i + 1, 0), i);
      flow.add(2 * i + 1, end, whole(graph.time[i]));
      for (const int32_t input : graph.reads(i)) {
        flow.add(2 * i + 1, 2 * input, kInfinite);
      }
    }
    int64_t work = max_work / static_cast<int64_t>(stages.size());
    int64_t sum = 0;
    std::vector<int64_t> now(kept.size(), 0);
    for (int32_t k = 0; k < kPrices && work > 0; ++k) {
      const double price = std::ldexp(graph.total_time / bytes, k - 4);
      for (size_t e = 0; e < kept.size(); ++e) {
        const int32_t i = kept[e].second;
        double cost = price * static_cast<double>(graph.bytes[i]);
        for (const Variant& variant : source.steps[i].variants) {
          cost = std::min(cost, price * static_cast<double>(variant.bytes) + variant.encode_time + variant.decode_time);
        }
        const int64_t capacity = std::max(now[e], whole(cost));
        flow.raise(kept[e].first, capacity - now[e]);
        now[e] = capacity;
      }
      sum += flow.augment(start, end, &work);
      lines_.push_back({static_cast<double>(sum) / scale, price, taken});
    }
  }
}

double CutBounds::at(int64_t budget_bytes) const {
  double best = 0;
  for (const Line& line : lines_) {
    best = std::max(best, line.time - line.price * static_cast<double>(budget_bytes - line.bytes));
  }
  return best * (1 - 1e-9);
}

}  // namespace encore::plan
