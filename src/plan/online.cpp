// DTR with all its choices: equal worths go by the order of the steps, and what nobody will read goes at once.
#include "plan/online.h"

#include <algorithm>
#include <cmath>

namespace encore::plan {
namespace {

class OnlineRun {
 public:
  OnlineRun(const Graph& graph, int64_t budget, double most_extra_time, int64_t max_work)
      : graph_(graph),
        n_(static_cast<int32_t>(graph.steps.size())),
        budget_(budget),
        most_extra_time_(most_extra_time),
        max_work_(max_work),
        values_(graph.steps.size()),
        dies_(graph.steps.size() + 1),
        again_(graph.steps.size() + 1) {
    for (int32_t i = 0; i < n_; ++i) {
      values_[i].last_read = std::max(i, graph.steps[i].held_until);
      for (const int32_t input : graph.steps[i].inputs) {
        values_[input].users.push_back(i);
        values_[input].last_read = std::max(values_[input].last_read, i);
      }
    }
    for (const int32_t output : graph.outputs) {
      values_[output].last_read = n_;
    }
    for (int32_t i = 0; i < n_; ++i) {
      dies_[values_[i].last_read].push_back(i);
    }
  }

  bool run() {
    for (next_ = 0; next_ < n_; ++next_) {
      if (!compute(next_, 0)) {
        return false;
      }
      for (const int32_t step : dies_[next_]) {
        if (values_[step].place >= 0) {
          evict(step);
        }
      }
    }
    for (const int32_t output : graph_.outputs) {
      ++values_[output].locks;
      if (values_[output].place < 0 && !compute(output, 0)) {
        return false;
      }
    }
    return true;
  }

  EvictingRun take() {
    for (auto& steps : again_) {
      std::sort(steps.begin(), steps.end());
      steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    }
    return {true, extra_time_, std::move(schedule_), {std::move(again_), std::vector<int32_t>(n_ + 1, -1)}};
  }
  [[nodiscard]] int64_t work() const { return work_; }

 private:
  struct Value {
    int32_t place = -1;  // Among those in memory.
    int32_t locks = 0;
    int32_t set = -1;  // Of neighbours that are gone.
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
  void for_gone_neighbours(int32_t step, Do what) {
    const auto look = [&](int32_t other) {
      if (other < next_ && values_[other].set >= 0) {
        what(find(values_[other].set));
      }
    };
    std::for_each(graph_.steps[step].inputs.begin(), graph_.steps[step].inputs.end(), look);
    std::for_each(values_[step].users.begin(), values_[step].users.end(), look);
    work_ += static_cast<int64_t>(graph_.steps[step].inputs.size() + values_[step].users.size());
  }

  void evict(int32_t step) {
    Value& value = values_[step];
    values_[there_.back()].place = value.place;
    there_[value.place] = there_.back();
    there_.pop_back();
    value.place = -1;
    memory_ -= graph_.steps[step].bytes;
    schedule_.push_back({OpKind::kDrop, step, 0});
    const auto own = static_cast<int32_t>(parent_.size());
    parent_.push_back(own);
    cost_.push_back(graph_.steps[step].time);
    value.set = own;
    for_gone_neighbours(step, [&](int32_t set) {
      if (set != own) {
        parent_[set] = own;
        cost_[own] += cost_[set];
      }
    });
  }

  double time_again(int32_t step) {
    near_.clear();
    double time = graph_.steps[step].time;
    for_gone_neighbours(step, [&](int32_t set) {
      if (std::find(near_.begin(), near_.end(), set) == near_.end()) {
        near_.push_back(set);
        time += cost_[set];
      }
    });
    return time;
  }

  // The value that is worth least, or -1.
  int32_t choose() {
    int32_t best = -1;
    double least = INFINITY;
    for (const int32_t i : there_) {
      const Step& step = graph_.steps[i];
      if (values_[i].locks > 0 || step.bytes == 0 || step.held_until >= next_) {
        continue;
      }
      const double share = static_cast<double>(step.bytes) * std::max(clock_ - values_[i].used, 1e-9);
      if (step.time / share > least) {
        continue;  // What is gone around it only adds to that.
      }
      const double worth = time_again(i) / share;
      if (worth < least || (worth == least && i < best)) {
        least = worth;
        best = i;
      }
    }
    work_ += static_cast<int64_t>(there_.size());
    return best;
  }

  bool make_room(int64_t bytes) {
    const int64_t limit = budget_ - bytes - graph_.steps[std::min(next_, n_ - 1)].background_bytes;
    while (memory_ > limit) {
      const int32_t step = choose();
      if (step < 0 || work_ > max_work_) {
        return false;
      }
      evict(step);
    }
    return true;
  }

  bool bring_inputs(const Step& step, int32_t depth) {
    return std::all_of(step.inputs.begin(), step.inputs.end(),
                       [&](int32_t input) { return values_[input].place >= 0 || compute(input, depth + 1); });
  }

  bool compute(int32_t index, int32_t depth) {
    constexpr int32_t kDeepest = 10'000;  // Of calls.
    const Step& step = graph_.steps[index];
    extra_time_ += index < next_ ? step.time : 0;
    work_ += 8;
    if (extra_time_ >= most_extra_time_ || work_ > max_work_ || depth > kDeepest) {
      return false;
    }
    for (const int32_t input : step.inputs) {
      ++values_[input].locks;
    }
    const bool done = bring_inputs(step, depth) && make_room(step.bytes + step.temp_bytes);
    for (const int32_t input : step.inputs) {
      --values_[input].locks;
    }
    if (done) {
      bring_in(index);
    }
    return done;
  }

  void bring_in(int32_t index) {
    const Step& step = graph_.steps[index];
    if (index < next_) {
      again_[next_].push_back(index);
    }
    schedule_.push_back({OpKind::kCompute, index, 0});
    clock_ += step.time;
    memory_ += step.bytes;
    Value& value = values_[index];
    value.place = static_cast<int32_t>(there_.size());
    there_.push_back(index);
    value.used = clock_;
    if (value.set >= 0) {
      double& cost = cost_[find(value.set)];
      cost = std::max(0.0, cost - step.time);
      value.set = -1;
    }
    for (const int32_t input : step.inputs) {
      values_[input].used = clock_;
    }
  }

  const Graph& graph_;
  int32_t n_;
  int64_t budget_;
  double most_extra_time_;
  int64_t max_work_;
  int64_t work_ = 0;
  int32_t next_ = 0;
  double extra_time_ = 0;
  double clock_ = 0;
  int64_t memory_ = 0;
  std::vector<Value> values_;
  std::vector<std::vector<int32_t>> dies_;  // By step: what nobody reads after it.
  std::vector<int32_t> there_;
  std::vector<int32_t> parent_, near_;
  std::vector<double> cost_;
  std::vector<std::vector<int32_t>> again_;
  Schedule schedule_;
};

}  // namespace

EvictingRun run_online(const Graph& graph, int64_t budget, double most_extra_time, int64_t max_work, int64_t* work) {
  OnlineRun run(graph, budget, most_extra_time, max_work);
  const bool done = run.run();
  *work += run.work();
  return done ? run.take() : EvictingRun{};
}

}  // namespace encore::plan
