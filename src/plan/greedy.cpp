// Greedy construction: what to drop first, and what to take back.
#include <algorithm>
#include <cmath>
#include <queue>

#include "plan/search.h"

namespace encore::plan {

void evict(Stages* stages, int32_t t, int32_t step, Random* random) {
  const Compact& graph = stages->graph();
  std::vector<int32_t> absent;
  for (const int32_t input : graph.reads(step)) {
    const auto& events = stages->events(input);
    const int32_t k = stages->event_at(input, t);
    const bool there = k < static_cast<int32_t>(events.size()) && (events[k].stage == t || !events[k].computed);
    if (!there) {
      absent.push_back(input);
    }
  }
  stages->add(t, step);
  for (const int32_t input : absent) {
    if (stages->computed_at(t, input)) {
      continue;
    }
    const int32_t k = stages->event_at(input, t);
    const int32_t from = stages->events(input)[k - 1].stage;
    bool too_big = stages->peak(stages->fullest(from, t)) > stages->budget();
    if (random != nullptr && random->below(8) == 0) {
      too_big = !too_big;
    }
    if (too_big && input < t && graph.may_recompute(input, t)) {
      evict(stages, t, input, random);
    }
  }
}

namespace {

// One carried gap of one value: dropping the value there means recomputing it at `t`. Negative: letting it rest in its
// variant -1 - t.
struct Candidate {
  double price;  // Extra time for each byte of excess that goes away; at first only a lower bound.
  int32_t step;
  int32_t t;
  bool operator<(const Candidate& other) const {
    return price != other.price ? price > other.price : std::make_pair(step, t) > std::make_pair(other.step, other.t);
  }
};

// How much worse than the next one's (old) price a candidate may be and still be taken. With many equal candidates an
// exact order would price each of them again after each step.
constexpr double kSlack = 1.05;

class Greedy {
 public:
  explicit Greedy(Stages* stages) : stages_(*stages), graph_(stages->graph()) {}

  bool run(int64_t max_work) {
    const int64_t stop = stages_.work() + max_work;
    bool progress = true;
    while (stages_.stages_over() > 0) {
      if (stages_.work() > stop) {
        return false;
      }
      if (queue_.empty()) {
        if (!progress) {
          return false;
        }
        progress = false;
        enqueue_all();
        continue;
      }
      const Candidate top = queue_.top();
      queue_.pop();
      if (!is_open(top)) {
        continue;
      }
      const double price = apply(top);
      if (price == INFINITY) {
        stages_.rollback();
      } else if (!queue_.empty() && price > queue_.top().price * kSlack) {
        stages_.rollback();
        queue_.push({price, top.step, top.t});
      } else {
        progress = true;
      }
    }
    return true;
  }

 private:
  // Does it, and says what it cost; INFINITY if it doesn't help.
  double apply(const Candidate& candidate) {
    const double time = stages_.extra_time();
    const double excess = stages_.excess();
    stages_.begin();
    if (candidate.t < 0) {
      stages_.set_form(candidate.step, -1 - candidate.t);
    } else {
      evict(&stages_, candidate.t, candidate.step, nullptr);
    }
    return price_of(stages_.extra_time() - time, excess - stages_.excess());
  }

  [[nodiscard]] double price_of(double time, double bytes) const {
    // Even what costs nothing should free much at a time.
    return bytes > 0 ? (time + 1e-12 * graph_.total_time) / bytes : INFINITY;
  }

  [[nodiscard]] bool is_open(const Candidate& candidate) const {
    if (candidate.t < 0) {
      return stages_.form(candidate.step) < 0;
    }
    const auto& events = stages_.events(candidate.step);
    const int32_t k = stages_.event_at(candidate.step, candidate.t);
    return k < static_cast<int32_t>(events.size()) && events[k].stage == candidate.t && !events[k].computed;
  }

  void enqueue_all() {
    std::vector<double> sum(graph_.n + 2, 0);  // Excess of the stages before.
    for (int32_t t = 0; t <= graph_.n; ++t) {
      sum[t + 1] = sum[t] + std::max(0.0, stages_.peak(t) - stages_.budget());
    }
    for (int32_t step = 0; step < graph_.n; ++step) {
      const auto bytes = static_cast<double>(graph_.bytes[step]);
      const auto& events = stages_.events(step);
      for (size_t k = 1; k < events.size() && bytes > 0; ++k) {
        const int32_t from = events[k - 1].stage;
        const int32_t to = events[k].stage;
        const double most = std::min(sum[to + 1] - sum[from], bytes * (to - from + 1));
        if (!events[k].computed && most > 0 && graph_.may_recompute(step, to)) {
          queue_.push({price_of(graph_.time[step], most), step, to});
        }
        const auto forms = static_cast<int32_t>(stages_.variants(step).size());
        for (int32_t v = 0; v < forms && !events[k].computed && most > 0 && stages_.may_rest(step, from, to); ++v) {
          const Variant& variant = stages_.variants(step)[v];
          queue_.push({price_of(variant.encode_time + variant.decode_time, most), step, -1 - v});
        }
      }
    }
  }

  Stages& stages_;
  const Compact& graph_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

bool make_fit(Stages* stages, int64_t max_work) {
  return Greedy(stages).run(max_work);
}

void relax(Stages* stages, int64_t max_work) {
  const Compact& graph = stages->graph();
  const int64_t stop = stages->work() + max_work;
  std::vector<std::pair<double, std::pair<int32_t, int32_t>>> all;  // Dearest first.
  for (bool changed = true; changed && stages->work() < stop;) {
    changed = false;
    all.clear();
    for (int32_t t = 0; t <= graph.n; ++t) {
      for (const int32_t step : stages->recomputed(t)) {
        all.push_back({-graph.time[step], {t, step}});
      }
    }
    for (int32_t step = 0; step < graph.n; ++step) {
      if (stages->form(step) >= 0) {
        const Variant& variant = stages->variants(step)[stages->form(step)];
        all.push_back({-variant.encode_time - variant.decode_time, {Stages::kForm, step}});
      }
    }
    std::sort(all.begin(), all.end());
    for (const auto& [time, where] : all) {
      const auto [t, step] = where;
      if (stages->work() >= stop) {
        return;
      }
      stages->begin();
      if (t == Stages::kForm) {
        stages->set_form(step, -1);
      } else if (stages->computed_at(t, step)) {
        stages->remove(t, step);
        stages->remove_useless(t, step);
      } else {
        continue;
      }
      if (stages->stages_over() > 0) {
        stages->rollback();
      } else {
        changed = true;
      }
    }
  }
}

}  // namespace encore::plan
