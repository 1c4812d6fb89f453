// The run that makes room as it goes. What is gone comes back in sweeps: all that one step needs, in the order of the
// steps. Where that doesn't fit either, a sweep lets go of what it reads last, and sweeps again for that, and so on.
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
        worths_(graph, worth),
        max_work_(max_work),
        resident_(graph.n + 1, 0),
        locks_(graph.n + 1, 0),
        seen_(graph.n + 1, 0),
        seen_in_(graph.n + 1, -1),
        again_(graph.n + 1) {}

  bool run() {
    for (stage_ = 0; stage_ <= graph_.n; ++stage_) {
      lock(stage_, 1);
      if (!sweep_for(stage_) || !compute(stage_)) {
        return false;
      }
      lock(stage_, -1);
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
  [[nodiscard]] int64_t work() const { return work_ + worths_.work(); }

 private:
  struct Sweep {
    std::vector<int32_t> steps;  // The one that reads in the end comes last.
    size_t at;
  };
  struct Open {
    double worth;
    double share;
    int32_t step;
    bool operator<(const Open& other) const { return worth != other.worth ? worth > other.worth : step > other.step; }
  };

  void evict(int32_t step) {
    resident_[step] = 0;
    schedule_.push_back({OpKind::kDrop, step, 0});
    used_ -= static_cast<double>(graph_.bytes[step]);
    worths_.set_gone(step);
  }

  void bring_in(int32_t step) {
    resident_[step] = 1;
    used_ += static_cast<double>(graph_.bytes[step]);
    where_.push_back(step);
    fresh_.push_back(step);
    worths_.set_back(step);
  }

  [[nodiscard]] Span inputs(int32_t step) const { return step == stage_ ? graph_.inputs(step) : graph_.reads(step); }

  // Whoever waits for a value locks it.
  void lock(int32_t reader, int32_t by) {
    for (const int32_t input : inputs(reader)) {
      locks_[input] += by;
    }
  }

  [[nodiscard]] bool may_go(int32_t step) const {
    return resident_[step] == 1 && graph_.bytes[step] > 0 && graph_.may_recompute(step, stage_);
  }
  [[nodiscard]] bool is_free(int32_t step) const { return locks_[step] == 0 && may_go(step); }

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
          const double alone = worths_.alone(step, stage_, &share);
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
      best_.emplace_back(next.worth + worths_.weights().around * worths_.around(next.step) * next.share, next.step);
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
    double least = best < 0 ? INFINITY : worths_.whole(best, stage_);
    for (const int32_t step : fresh_) {
      const double worth = is_free(step) ? worths_.whole(step, stage_) : INFINITY;
      if (worth < least) {
        least = worth;
        best = step;
      }
    }
    return best;
  }

  // Of what sweeps under way are going to read, the value that is read last; the innermost sweep goes on first.
  int32_t needed_last(int32_t reader) {
    ++stamp_;
    for (const int32_t input : inputs(reader)) {
      seen_[input] = stamp_;
    }
    int32_t best = -1;
    for (auto sweep = sweeps_.rbegin(); sweep != sweeps_.rend(); ++sweep) {
      for (size_t k = sweep->at; k < sweep->steps.size(); ++k) {
        for (const int32_t input : inputs(sweep->steps[k])) {
          if (seen_[input] != stamp_) {
            seen_[input] = stamp_;
            best = may_go(input) ? input : best;
          }
        }
        work_ += 4;
      }
    }
    return best;
  }

  int32_t choose(int32_t reader) {
    const int32_t best = least_missed();
    const bool spares = worths_.weights().spare && !sweeps_.empty() && best >= 0 && worths_.is_dear(best, stage_);
    if (best >= 0 && !spares) {
      return best;
    }
    const int32_t other = needed_last(reader);
    return best >= 0 && (other < 0 || worths_.is_dear(other, stage_)) ? best : other;
  }

  // `reader` is about to run, and its inputs stay.
  bool make_room(double bytes, int32_t reader) {
    const double limit = budget_ - static_cast<double>(graph_.background[stage_]) - bytes;
    while (used_ > limit) {
      const int32_t step = choose(reader);
      if (step < 0 || work() > max_work_) {
        return false;
      }
      evict(step);
    }
    return true;
  }

  // Computes a step whose inputs are there.
  bool compute(int32_t step) {
    if (!make_room(static_cast<double>(graph_.bytes[step] + graph_.temp[step]), step)) {
      return false;
    }
    work_ += 8;
    if (step == graph_.n) {
      return true;
    }
    if (step < stage_) {
      again_[stage_].push_back(step);
      extra_time_ += graph_.time[step];
    }
    schedule_.push_back({OpKind::kCompute, step, 0});
    bring_in(step);
    worths_.tick();
    worths_.set_used(step);
    for (const int32_t input : inputs(step)) {
      worths_.set_used(input);
    }
    return true;
  }

  // What is gone of all that the reader needs, in the order of the steps. False if some of it is held and can't have
  // gone.
  bool gather(int32_t reader, std::vector<int32_t>* steps) {
    ++stamp_;
    const auto look = [&](int32_t step) {
      for (const int32_t input : inputs(step)) {
        if (resident_[input] == 0 && seen_[input] != stamp_) {
          seen_[input] = stamp_;
          steps->push_back(input);
        }
      }
    };
    look(reader);
    for (size_t k = 0; k < steps->size(); ++k) {
      if (!graph_.may_recompute((*steps)[k], stage_)) {
        return false;
      }
      look((*steps)[k]);
    }
    work_ += 8 * static_cast<int64_t>(steps->size());
    std::sort(steps->begin(), steps->end());
    return true;
  }

  // Has all inputs of the reader in memory. What one of them takes may cost another one its place; after a few rounds
  // that is hopeless.
  bool sweep_for(int32_t reader) {
    constexpr int kRounds = 4;
    constexpr size_t kDeepest = 200;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<int32_t> steps;
      if (!gather(reader, &steps)) {
        return false;
      }
      if (steps.empty()) {
        return true;
      }
      if (work() > max_work_ || sweeps_.size() > kDeepest) {
        return false;
      }
      for (const int32_t step : steps) {
        lock(step, 1);
      }
      steps.push_back(reader);
      const size_t level = sweeps_.size();
      sweeps_.push_back({std::move(steps), 0});
      for (; sweeps_[level].at + 1 < sweeps_[level].steps.size(); ++sweeps_[level].at) {
        const int32_t step = sweeps_[level].steps[sweeps_[level].at];
        if (resident_[step] == 0 && (!sweep_for(step) || !compute(step))) {
          return false;
        }
        lock(step, -1);
      }
      sweeps_.pop_back();
    }
    const Span needed = inputs(reader);
    return std::all_of(needed.begin(), needed.end(), [&](int32_t input) { return resident_[input] != 0; });
  }

  const Compact& graph_;
  double budget_;
  Worths worths_;
  int64_t max_work_;
  int64_t work_ = 0;
  double extra_time_ = 0;
  int32_t stage_ = 0;
  double used_ = 0;
  std::vector<char> resident_;
  std::vector<int32_t> locks_;
  std::vector<Sweep> sweeps_;   // Under way, the outermost first.
  std::vector<int32_t> where_;  // What is in memory, with some that are not.
  std::vector<int32_t> seen_;
  int32_t stamp_ = 0;
  std::vector<Open> open_;
  std::vector<std::pair<double, int32_t>> best_;
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
