// The run that makes room as it goes.
#include "plan/evicting.h"

#include <algorithm>
#include <cmath>

namespace encore::plan {
namespace {

class Run {
 public:
  Run(const Compact& graph, double budget, const Worth& worth, int64_t max_work)
      : graph_(graph),
        budget_(budget),
        worth_(worth),
        max_work_(max_work),
        resident_(graph.n + 1, 0),
        locks_(graph.n + 1, 0),
        last_use_(graph.n + 1, 0),
        set_(graph.n + 1, -1),
        time_again_(graph.out.size(), -1),
        seen_(graph.n + 1, 0),
        seen_in_(graph.n + 1, -1),
        again_(graph.n + 1) {
    for (int32_t k = 0; k <= 2 * graph.n + 1; ++k) {
      powers_.push_back(worth.distance == 1 ? k : std::pow(k, worth.distance));
    }
  }

  bool run() {
    for (stage_ = 0; stage_ <= graph_.n; ++stage_) {
      if (!compute(stage_)) {
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
    return {true, extra_time_, std::move(schedule_), {std::move(again_), std::vector<int32_t>(graph_.n + 1, -1)}};
  }
  [[nodiscard]] int64_t work() const { return work_; }

 private:
  // Sets of neighbours that are gone, with the time that it takes to have them all again.
  int32_t find(int32_t set) {
    while (parent_[set] != set) {
      parent_[set] = parent_[parent_[set]];
      set = parent_[set];
    }
    return set;
  }

  void evict(int32_t step) {
    resident_[step] = 0;
    schedule_.push_back({OpKind::kDrop, step, 0});
    used_ -= static_cast<double>(graph_.bytes[step]);
    set_[step] = static_cast<int32_t>(parent_.size());
    parent_.push_back(set_[step]);
    cost_.push_back(graph_.time[step]);
    int32_t own = set_[step];
    const auto join = [&](int32_t other) {
      if (set_[other] < 0) {
        return;
      }
      const int32_t set = find(set_[other]);
      if (set != own) {
        parent_[set] = own;
        cost_[own] += cost_[set];
      }
    };
    for (const int32_t input : graph_.inputs(step)) {
      join(input);
    }
    for (const int32_t user : graph_.users(step)) {
      join(user);
    }
    work_ += 4;
  }

  void bring_in(int32_t step) {
    resident_[step] = 1;
    used_ += static_cast<double>(graph_.bytes[step]);
    where_.push_back(step);
    fresh_.push_back(step);
    if (set_[step] >= 0) {
      double& cost = cost_[find(set_[step])];
      cost = std::max(0.0, cost - graph_.time[step]);
      set_[step] = -1;
    }
  }

  double around(int32_t step) {
    near_.clear();
    double sum = 0;
    const auto look = [&](int32_t other) {
      if (set_[other] < 0) {
        return;
      }
      const int32_t set = find(set_[other]);
      if (std::find(near_.begin(), near_.end(), set) == near_.end()) {
        near_.push_back(set);
        sum += cost_[set];
      }
    };
    for (const int32_t input : graph_.inputs(step)) {
      look(input);
    }
    for (const int32_t user : graph_.users(step)) {
      look(user);
    }
    work_ += static_cast<int64_t>(2 * (graph_.inputs(step).size() + graph_.users(step).size()));
    return sum;
  }

  // What it takes to have the value again where it is read next, from what the plain run has then. So the gradient that
  // a skip carries past the rest of backward is dear, however cheap the step that made it.
  double time_again(int32_t step, const int32_t* next) {
    double& known = time_again_[next - graph_.out.data()];
    if (known >= 0) {
      return known;
    }
    constexpr size_t kFar = 100;
    known = 0;
    ++stamp_;
    std::vector<int32_t> open{step};
    for (size_t k = 0; k < open.size() && k < kFar; ++k) {
      known += graph_.time[open[k]];
      for (const int32_t input : graph_.inputs(open[k])) {
        if (seen_[input] != stamp_ && graph_.users(input).end()[-1] < *next) {
          seen_[input] = stamp_;
          open.push_back(input);
        }
      }
      work_ += 8;
    }
    known *= open.size() > kFar ? static_cast<double>(open.size()) : 1;
    return known;
  }

  // The worth without what is gone around the value: never more than the whole.
  double worth_alone(int32_t step, double* share) {
    const Span users = graph_.users(step);
    const auto* next = std::lower_bound(users.begin(), users.end(), stage_);
    double time = graph_.time[step];
    double distance = 0;
    if (worth_.look_back) {
      distance = clock_ - last_use_[step] + 1;
    } else {
      distance = powers_[next == users.end() ? 2 * graph_.n : *next - stage_ + 1];
      time = next != users.end() && worth_.deep ? time_again(step, next) : time;
    }
    *share = 1 / (static_cast<double>(graph_.bytes[step]) * distance);
    return (time + 1e-12 * graph_.total_time) * *share;
  }

  double worth_of(int32_t step) {
    double share = 0;
    const double alone = worth_alone(step, &share);
    return alone + worth_.around * around(step) * share;
  }

  [[nodiscard]] bool is_free(int32_t step) const {
    return resident_[step] == 1 && locks_[step] == 0 && graph_.bytes[step] > 0 && graph_.may_recompute(step, stage_);
  }

  // Finds those in memory that are worth least. In long graphs that serves for several evictions.
  void rank() {
    open_.clear();
    size_t kept = 0;
    for (const int32_t step : where_) {
      if (resident_[step] == 1 && seen_in_[step] != rank_stamp_) {
        seen_in_[step] = rank_stamp_;
        where_[kept++] = step;
        if (is_free(step)) {
          double share = 0;
          const double alone = worth_alone(step, &share);
          open_.push_back({alone, share, step});
        }
      }
    }
    ++rank_stamp_;
    where_.resize(kept);
    work_ += 6 * static_cast<int64_t>(kept);
    // Those that are worth little alone come first; the rest can't be among the least.
    const auto count = static_cast<size_t>(graph_.n / 1000 + 4);
    std::make_heap(open_.begin(), open_.end());
    best_.clear();
    while (!open_.empty() && (best_.size() < count || open_.front().worth < best_.front().first)) {
      std::pop_heap(open_.begin(), open_.end());
      const Open next = open_.back();
      open_.pop_back();
      best_.emplace_back(next.worth + worth_.around * around(next.step) * next.share, next.step);
      std::push_heap(best_.begin(), best_.end());
      if (best_.size() > count) {
        std::pop_heap(best_.begin(), best_.end());
        best_.pop_back();
      }
    }
    std::sort_heap(best_.begin(), best_.end());
    ranked_.clear();
    for (auto it = best_.rbegin(); it != best_.rend(); ++it) {
      ranked_.push_back(it->second);
    }
    fresh_.clear();
    taken_ = 0;
  }

  // The value that is missed least: of those ranked, and of those that have come since.
  int32_t least_missed() {
    constexpr size_t kFresh = 64;
    while (!ranked_.empty() && !is_free(ranked_.back())) {
      ranked_.pop_back();
    }
    if (ranked_.empty() || fresh_.size() > kFresh || ++taken_ > graph_.n / 1000) {
      rank();
    }
    int32_t best = ranked_.empty() ? -1 : ranked_.back();
    double least = best < 0 ? INFINITY : worth_of(best);
    for (const int32_t step : fresh_) {
      const double worth = is_free(step) ? worth_of(step) : INFINITY;
      if (worth < least) {
        least = worth;
        best = step;
      }
    }
    return best;
  }

  // Takes what is missed least, but nothing that is waited for further up, unless there is nothing else; `reader` is
  // about to run, and its inputs stay.
  bool make_room(double bytes, int32_t reader) {
    const double limit = budget_ - static_cast<double>(graph_.background[stage_]) - bytes;
    while (used_ > limit) {
      int32_t best = least_missed();
      if (best < 0) {
        const Span inputs = graph_.inputs(reader);
        for (const int32_t step : where_) {
          const bool may_go = resident_[step] == 1 && graph_.bytes[step] > 0 && graph_.may_recompute(step, stage_) &&
                              !std::binary_search(inputs.begin(), inputs.end(), step);
          if (may_go && (best < 0 || graph_.bytes[step] > graph_.bytes[best])) {
            best = step;
          }
        }
      }
      if (best < 0 || work_ > max_work_) {
        return false;
      }
      evict(best);
    }
    return true;
  }

  // Computes a step after whatever it reads and isn't there.
  bool compute(int32_t step) {
    const Span inputs = graph_.inputs(step);
    for (const int32_t input : inputs) {
      ++locks_[input];
    }
    const bool done = fetch(step) && make_room(static_cast<double>(graph_.bytes[step] + graph_.temp[step]), step);
    if (done && step < graph_.n) {
      if (step < stage_) {
        again_[stage_].push_back(step);
        extra_time_ += graph_.time[step];
      }
      schedule_.push_back({OpKind::kCompute, step, 0});
      bring_in(step);
      clock_ += 1;
      last_use_[step] = clock_;
    }
    for (const int32_t input : inputs) {
      --locks_[input];
      last_use_[input] = clock_;
    }
    work_ += 8;
    return done;
  }

  // What one input takes may cost another one its place; after a few rounds that is hopeless.
  bool fetch(int32_t step) {
    constexpr int kRounds = 3;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<int32_t> missing;
      for (const int32_t input : graph_.inputs(step)) {
        if (resident_[input] == 0) {
          missing.push_back(input);
        }
      }
      if (missing.empty()) {
        return true;
      }
      if (worth_.latest_first != (round == 1)) {
        std::reverse(missing.begin(), missing.end());
      }
      for (const int32_t input : missing) {
        const bool may = graph_.may_recompute(input, stage_) && work_ <= max_work_;
        if (resident_[input] == 0 && (!may || !compute(input))) {
          return false;
        }
      }
    }
    const Span inputs = graph_.inputs(step);
    return std::all_of(inputs.begin(), inputs.end(), [&](int32_t input) { return resident_[input] != 0; });
  }

  const Compact& graph_;
  double budget_;
  Worth worth_;
  int64_t max_work_;
  int64_t work_ = 0;
  double extra_time_ = 0;
  int32_t stage_ = 0;
  double used_ = 0;
  double clock_ = 0;
  std::vector<char> resident_;
  std::vector<int32_t> locks_;
  std::vector<double> last_use_;
  std::vector<int32_t> where_;  // What is in memory, with some that are not.
  std::vector<int32_t> set_, parent_;
  std::vector<double> cost_;
  std::vector<int32_t> near_;
  std::vector<double> time_again_;  // By use.
  std::vector<int32_t> seen_;
  int32_t stamp_ = 0;
  struct Open {
    double worth;
    double share;
    int32_t step;
    bool operator<(const Open& other) const { return worth != other.worth ? worth > other.worth : step > other.step; }
  };
  std::vector<Open> open_;
  std::vector<std::pair<double, int32_t>> best_;
  std::vector<double> powers_;  // Of distances.
  std::vector<int32_t> ranked_, fresh_, seen_in_;
  int32_t rank_stamp_ = 0;
  int32_t taken_ = 0;  // Since the ranking.
  std::vector<std::vector<int32_t>> again_;
  Schedule schedule_;
};

}  // namespace

EvictingRun run_evicting(const Compact& graph, double budget, const Worth& worth, int64_t max_work, int64_t* work) {
  Run run(graph, budget, worth, max_work);
  const bool done = run.run();
  *work += run.work();
  return done ? run.take() : EvictingRun{};
}

}  // namespace encore::plan
