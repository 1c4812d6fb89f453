// The peer, written from its paper: h = (c0 + sum of c over the evicted neighbourhood) / (m * staleness).
#include "dtr.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace encore::plan::bench {
namespace {

class Dtr {
 public:
  Dtr(const Graph& graph, int64_t budget, int64_t max_computes)
      : graph_(graph), budget_(budget), left_(max_computes), values_(graph.steps.size()) {
    const auto n = static_cast<int32_t>(graph.steps.size());
    for (int32_t i = 0; i < n; ++i) {
      values_[i].last_read = std::max(i, graph.steps[i].held_until);  // Whoever holds it has a use for it.
    }
    for (int32_t i = 0; i < n; ++i) {
      for (const int32_t input : graph.steps[i].inputs) {
        values_[input].users.push_back(i);
        values_[input].last_read = std::max(values_[input].last_read, i);
      }
    }
    for (const int32_t output : graph.outputs) {
      values_[output].last_read = n;
    }
    dies_.resize(graph.steps.size() + 1);
    for (int32_t i = 0; i < n; ++i) {
      dies_[values_[i].last_read].push_back(i);
    }
  }

  DtrResult run() {
    const auto n = static_cast<int32_t>(graph_.steps.size());
    for (next_ = 0; next_ < n; ++next_) {
      if (!compute(next_)) {
        return {};
      }
      for (const int32_t step : dies_[next_]) {
        if (values_[step].there) {
          evict(step);
        }
      }
    }
    for (const int32_t output : graph_.outputs) {
      ++values_[output].locks;
      if (!values_[output].there && !compute(output)) {
        return {};
      }
    }
    return {true, clock_, peak_};
  }

 private:
  struct Value {
    bool there = false;
    int32_t locks = 0;
    int32_t set = -1;
    double used = 0;
    int32_t last_read = 0;
    std::vector<int32_t> users;
  };

  int32_t find(int32_t set) {
    while (parent_[set] != set) {
      set = parent_[set] = parent_[parent_[set]];
    }
    return set;
  }

  template <typename Do>
  void neighbours(int32_t step, Do what) {
    for (const int32_t other : graph_.steps[step].inputs) {
      what(other);
    }
    for (const int32_t other : values_[step].users) {
      what(other);
    }
  }

  void evict(int32_t step) {
    Value& value = values_[step];
    value.there = false;
    memory_ -= graph_.steps[step].bytes;
    const auto own = static_cast<int32_t>(parent_.size());
    parent_.push_back(own);
    cost_.push_back(graph_.steps[step].time);
    value.set = own;
    neighbours(step, [&](int32_t other) {
      if (other < next_ && values_[other].set >= 0) {
        const int32_t set = find(values_[other].set);
        if (set != own) {
          parent_[set] = own;
          cost_[own] += cost_[set];
        }
      }
    });
  }

  double score(int32_t step) {
    std::vector<int32_t> sets;
    double cost = graph_.steps[step].time;
    neighbours(step, [&](int32_t other) {
      if (other < next_ && values_[other].set >= 0) {
        const int32_t set = find(values_[other].set);
        if (std::find(sets.begin(), sets.end(), set) == sets.end()) {
          sets.push_back(set);
          cost += cost_[set];
        }
      }
    });
    const double stale = std::max(clock_ - values_[step].used, 1e-9);
    return cost / (static_cast<double>(graph_.steps[step].bytes) * stale);
  }

  bool make_room(int64_t bytes) {
    const int64_t limit =
        budget_ - bytes - graph_.steps[std::min<size_t>(next_, graph_.steps.size() - 1)].background_bytes;
    while (memory_ > limit) {
      int32_t best = -1;
      double least = INFINITY;
      for (int32_t i = 0; i <= std::min<int32_t>(next_, static_cast<int32_t>(values_.size()) - 1); ++i) {
        const Value& value = values_[i];
        if (value.there && value.locks == 0 && graph_.steps[i].bytes > 0 && graph_.steps[i].held_until < next_) {
          const double now = score(i);
          if (now < least) {
            least = now;
            best = i;
          }
        }
      }
      if (best < 0) {
        return false;
      }
      evict(best);
    }
    return true;
  }

  bool compute(int32_t step) {
    const Step& it = graph_.steps[step];
    if (--left_ < 0) {
      return false;
    }
    for (const int32_t input : it.inputs) {
      ++values_[input].locks;
    }
    bool done = true;
    for (const int32_t input : it.inputs) {
      done = done && (values_[input].there || compute(input));
    }
    done = done && make_room(it.bytes + it.temp_bytes);
    for (const int32_t input : it.inputs) {
      --values_[input].locks;
    }
    if (!done) {
      return false;
    }
    clock_ += it.time;
    memory_ += it.bytes;
    peak_ = std::max(peak_, memory_ + it.temp_bytes);
    Value& value = values_[step];
    value.there = true;
    value.used = clock_;
    if (value.set >= 0) {
      double& cost = cost_[find(value.set)];
      cost = std::max(0.0, cost - it.time);
      value.set = -1;
    }
    for (const int32_t input : it.inputs) {
      values_[input].used = clock_;
    }
    return true;
  }

  const Graph& graph_;
  int64_t budget_;
  int64_t left_;
  int32_t next_ = 0;
  std::vector<Value> values_;
  std::vector<std::vector<int32_t>> dies_;  // By step: what goes after it for good.
  std::vector<int32_t> parent_;
  std::vector<double> cost_;
  int64_t memory_ = 0;
  int64_t peak_ = 0;
  double clock_ = 0;
};

}  // namespace

DtrResult dtr(const Graph& graph, int64_t budget_bytes, int64_t max_computes) {
  return Dtr(graph, budget_bytes, max_computes).run();
}

}  // namespace encore::plan::bench
