// Takes recomputations out of a run that its budget doesn't need, one value kept longer for each.
#include <algorithm>
#include <cmath>

#include "plan/evicting.h"

namespace encore::plan {
namespace {

// Computations alone: each value goes after the last of them that reads it before it is computed again.
class Sequence {
 public:
  Sequence(const Compact& graph, double budget, const Schedule& schedule) : graph_(graph), budget_(budget) {
    for (const Op& op : schedule) {
      if (op.kind == OpKind::kCompute) {
        steps_.push_back(op.step);
      }
    }
    steps_.push_back(graph.n);
  }

  /// Whether anything was taken out.
  bool thin_out(int64_t* work) {
    measure();
    std::vector<std::pair<double, size_t>> dearest;
    for (size_t at = 0; at < steps_.size(); ++at) {
      if (before_[at] >= 0) {
        dearest.emplace_back(-graph_.time[steps_[at]], at);
      }
    }
    std::sort(dearest.begin(), dearest.end());
    std::vector<char> gone(steps_.size(), 0);
    bool changed = false;
    for (const auto& [time, at] : dearest) {
      const auto bytes = static_cast<double>(graph_.bytes[steps_[at]]);
      const auto from = static_cast<size_t>(last_read_[static_cast<size_t>(before_[at])]) + 1;
      bool fits = *work > 0 && gone[static_cast<size_t>(before_[at])] == 0;
      for (size_t k = from; k < at && fits; ++k) {
        fits = used_[k] + bytes <= budget_;
        --*work;
      }
      if (fits) {
        gone[at] = 1;
        changed = true;
        std::for_each(used_.begin() + static_cast<int64_t>(from), used_.begin() + static_cast<int64_t>(at),
                      [&](double& used) { used += bytes; });
      }
    }
    take_out(gone);
    return changed;
  }

  EvictingRun finish() {
    measure();
    EvictingRun run;
    run.done = true;
    run.table = {std::vector<std::vector<int32_t>>(graph_.n + 1), std::vector<int32_t>(graph_.n + 1, -1)};
    std::vector<std::vector<int32_t>> goes(steps_.size());
    int32_t stage = 0;
    for (size_t at = 0; at < steps_.size(); ++at) {
      goes[static_cast<size_t>(last_read_[at])].push_back(steps_[at]);
    }
    for (size_t at = 0; at + 1 < steps_.size(); ++at) {
      const int32_t step = steps_[at];
      run.schedule.push_back({OpKind::kCompute, step, 0});
      if (step == stage) {
        ++stage;
      } else {
        run.extra_time += graph_.time[step];
        run.table.again[stage].push_back(step);
      }
      for (const int32_t value : goes[at]) {
        run.schedule.push_back({OpKind::kDrop, value, 0});
      }
    }
    for (auto& again : run.table.again) {
      std::sort(again.begin(), again.end());
      again.erase(std::unique(again.begin(), again.end()), again.end());
    }
    return run;
  }

 private:
  [[nodiscard]] Span inputs(int32_t step, bool first) const { return first ? graph_.inputs(step) : graph_.reads(step); }

  // For each place: where the value was computed before, where it is read last, and the bytes while the step runs.
  void measure() {
    const size_t count = steps_.size();
    before_.assign(count, -1);
    last_read_.resize(count);
    std::vector<int64_t> place(graph_.n + 1, -1);
    std::vector<int32_t> stage_of(count);
    int32_t stage = 0;
    for (size_t at = 0; at < count; ++at) {
      for (const int32_t input : inputs(steps_[at], place[steps_[at]] < 0)) {
        last_read_[static_cast<size_t>(place[input])] = static_cast<int64_t>(at);
      }
      before_[at] = place[steps_[at]];
      place[steps_[at]] = static_cast<int64_t>(at);
      last_read_[at] = static_cast<int64_t>(at);
      stage_of[at] = stage;
      stage += steps_[at] == stage ? 1 : 0;
    }
    std::vector<double> change(count + 1, 0);
    for (size_t at = 0; at < count; ++at) {
      change[at] += static_cast<double>(graph_.bytes[steps_[at]]);
      change[static_cast<size_t>(last_read_[at]) + 1] -= static_cast<double>(graph_.bytes[steps_[at]]);
    }
    used_.resize(count);
    double sum = 0;
    for (size_t at = 0; at < count; ++at) {
      sum += change[at];
      used_[at] = sum + static_cast<double>(graph_.temp[steps_[at]] + graph_.background[stage_of[at]]);
    }
  }

  // And what is then computed again for nobody.
  void take_out(std::vector<char> gone) {
    std::vector<char> read(graph_.n + 1, 0);
    for (size_t at = steps_.size(); at-- > 0;) {
      const int32_t step = steps_[at];
      if (gone[at] != 0) {
        continue;  // Reads after it go to the computation before.
      }
      if (before_[at] >= 0 && read[step] == 0) {
        gone[at] = 1;
        continue;
      }
      read[step] = 0;
      for (const int32_t input : inputs(step, before_[at] < 0)) {
        read[input] = 1;
      }
    }
    size_t kept = 0;
    for (size_t at = 0; at < steps_.size(); ++at) {
      if (gone[at] == 0) {
        steps_[kept++] = steps_[at];
      }
    }
    steps_.resize(kept);
  }

  const Compact& graph_;
  double budget_;
  std::vector<int32_t> steps_;  // The sink last.
  std::vector<int64_t> before_, last_read_;
  std::vector<double> used_;
};

}  // namespace

void tidy(const Compact& graph, double budget, int64_t max_work, EvictingRun* run) {
  Sequence sequence(graph, budget, run->schedule);
  while (max_work > 0 && sequence.thin_out(&max_work)) {
  }
  *run = sequence.finish();
}

}  // namespace encore::plan
