// Greedy construction and simulated annealing.
#include "plan/search.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace encore::plan {

uint64_t Random::next() {
  state_ += 0x9E3779B97F4A7C15ULL;
  uint64_t x = state_;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

namespace {

// Recomputes `step` in stage t, and so lets go of it before. An input that isn't there either is kept from its last
// event on if the budget allows that, and recomputed too if not; `random`, if given, sometimes decides otherwise.
void evict(Stages* stages, int32_t t, int32_t step, Random* random) {
  const Compact& graph = stages->graph();
  std::vector<int32_t> absent;
  for (const int32_t input : graph.inputs(step)) {
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
    bool too_big = stages->peak(t) > stages->budget();
    for (int32_t s = from; s < t && !too_big; ++s) {
      too_big = stages->peak(s) > stages->budget();
    }
    if (random != nullptr && random->below(8) == 0) {
      too_big = !too_big;
    }
    if (too_big && input < t) {
      evict(stages, t, input, random);
    }
  }
}

// One carried gap of one value: dropping the value there means recomputing it at `t`.
struct Candidate {
  double price;  // Extra time for each byte of excess that goes away.
  int32_t step;
  int32_t t;
  int32_t version;
  bool operator<(const Candidate& other) const {
    return price != other.price ? price > other.price : std::make_pair(step, t) > std::make_pair(other.step, other.t);
  }
};

}  // namespace

bool make_fit(Stages* stages, int64_t max_work) {
  const Compact& graph = stages->graph();
  std::priority_queue<Candidate> queue;
  int32_t version = 0;
  const auto price = [&](int32_t step, int32_t t) {
    const double time = stages->extra_time();
    const double excess = stages->excess();
    stages->begin();
    evict(stages, t, step, nullptr);
    const double gain = excess - stages->excess();
    const double cost = stages->extra_time() - time;
    return gain > 0 ? (cost + 1e-12 * graph.total_time) / gain : INFINITY;
  };
  const auto enqueue = [&](int32_t step) {
    const auto events = stages->events(step);
    for (size_t k = 1; k < events.size(); ++k) {
      if (!events[k].computed && events[k].stage > step && graph.bytes[step] > 0) {
        bool over =
            stages->peak(events[k].stage) > stages->budget() || stages->peak(events[k - 1].stage) > stages->budget();
        for (int32_t s = events[k - 1].stage + 1; s < events[k].stage && !over; ++s) {
          over = stages->peak(s) > stages->budget();
        }
        if (over) {
          const double p = price(step, events[k].stage);
          stages->rollback();
          if (p < INFINITY) {
            queue.push({p, step, events[k].stage, version});
          }
        }
      }
    }
  };
  const int64_t stop = stages->work() + max_work;
  while (stages->stages_over() > 0) {
    if (stages->work() > stop) {
      return false;
    }
    if (queue.empty()) {
      ++version;
      for (int32_t step = 0; step < graph.n; ++step) {
        enqueue(step);
      }
      if (queue.empty()) {
        return false;
      }
    }
    const Candidate top = queue.top();
    queue.pop();
    const int32_t k = stages->event_at(top.step, top.t);
    const auto& events = stages->events(top.step);
    if (k == static_cast<int32_t>(events.size()) || events[k].stage != top.t || events[k].computed) {
      continue;
    }
    const double now = price(top.step, top.t);
    if (now == INFINITY) {
      stages->rollback();
      continue;
    }
    if (!queue.empty() && now > queue.top().price * 1.0001) {
      stages->rollback();
      queue.push({now, top.step, top.t, version});
      continue;
    }
    stages->begin();
  }
  return true;
}

void relax(Stages* stages) {
  const Compact& graph = stages->graph();
  std::vector<std::pair<double, std::pair<int32_t, int32_t>>> all;
  for (bool changed = true; changed;) {
    changed = false;
    all.clear();
    for (int32_t t = 0; t <= graph.n; ++t) {
      for (const int32_t step : stages->recomputed(t)) {
        all.push_back({-graph.time[step], {t, step}});
      }
    }
    std::sort(all.begin(), all.end());
    for (const auto& [time, where] : all) {
      const auto [t, step] = where;
      if (!stages->computed_at(t, step)) {
        continue;
      }
      stages->begin();
      stages->remove(t, step);
      stages->remove_useless(t, step);
      if (stages->stages_over() > 0) {
        stages->rollback();
      } else {
        changed = true;
      }
    }
  }
}

namespace {

// The moves of the annealing: drop a value in a gap, take a recomputation back, or both.
class Annealer {
 public:
  Annealer(Stages* stages, uint64_t seed) : stages_(*stages), graph_(stages->graph()), random_(seed) {
    for (int32_t i = 0; i < graph_.n; ++i) {
      if (graph_.bytes[i] > 0 && graph_.users(i).size() > 0) {
        values_.push_back(i);
      }
    }
    for (int32_t t = 0; t <= graph_.n; ++t) {
      for (const int32_t step : stages_.recomputed(t)) {
        again_.emplace_back(t, step);
      }
    }
  }

  void run(int64_t work, const std::function<void(double)>& progress);

 private:
  [[nodiscard]] double energy() const { return stages_.extra_time() + weight_ * stages_.excess(); }
  bool drop_somewhere();
  bool restore_somewhere();
  bool move_somewhere();

  Stages& stages_;
  const Compact& graph_;
  Random random_;
  double weight_ = 0;
  std::vector<int32_t> values_;                     // That are worth dropping.
  std::vector<std::pair<int32_t, int32_t>> again_;  // Recomputations, with some that are gone.
};

bool Annealer::drop_somewhere() {
  const int32_t step = values_[random_.below(static_cast<int32_t>(values_.size()))];
  const auto& events = stages_.events(step);
  const int32_t k = 1 + random_.below(static_cast<int32_t>(events.size()));
  if (k >= static_cast<int32_t>(events.size()) || events[k].computed) {
    return false;
  }
  const int32_t t = events[k].stage;
  evict(&stages_, t, step, &random_);
  return true;
}

bool Annealer::restore_somewhere() {
  while (!again_.empty()) {
    const int32_t k = random_.below(static_cast<int32_t>(again_.size()));
    const auto [t, step] = again_[k];
    if (!stages_.computed_at(t, step)) {
      again_[k] = again_.back();
      again_.pop_back();
      continue;
    }
    stages_.remove(t, step);
    stages_.remove_useless(t, step);
    return true;
  }
  return false;
}

// Recomputes a value earlier than where it is read, for instance while its inputs are still there.
bool Annealer::move_somewhere() {
  if (again_.empty()) {
    return false;
  }
  const auto [t, step] = again_[random_.below(static_cast<int32_t>(again_.size()))];
  if (!stages_.computed_at(t, step)) {
    return false;
  }
  const auto& events = stages_.events(step);
  const int32_t k = stages_.event_at(step, t);
  const int32_t low = events[k - 1].stage + 1;
  const int32_t high = k + 1 < static_cast<int32_t>(events.size()) ? events[k + 1].stage : t;
  if (high < low) {
    return false;
  }
  const int32_t to = low + random_.below(high - low + 1);
  if (to == t || to <= step) {
    return false;
  }
  stages_.remove(t, step);
  stages_.remove_useless(t, step);
  if (!stages_.computed_at(to, step)) {
    evict(&stages_, to, step, &random_);
  }
  return true;
}

void Annealer::run(int64_t work, const std::function<void(double)>& progress) {
  if (values_.empty()) {
    return;
  }
  const int64_t start = stages_.work();
  auto best = stages_.table();
  double best_time = stages_.extra_time();
  const double unit = std::max(graph_.total_time, 1e-300) / graph_.n;
  int64_t tried = 0;
  while (true) {
    const double part = static_cast<double>(stages_.work() - start) / static_cast<double>(work);
    if (part >= 1 || tried > work) {
      break;
    }
    const double heat = unit * 2.0 * std::pow(1e-3, part);
    weight_ = 20 * heat / std::max(1.0, 0.02 * stages_.budget());
    if (progress && tried % 4096 == 0) {
      progress(part);
    }
    ++tried;
    stages_.begin();
    const double before = energy();
    const int32_t kind = random_.below(8);
    bool moved = false;
    if (kind < 2) {
      moved = drop_somewhere();
    } else if (kind < 4) {
      moved = restore_somewhere();
    } else if (kind < 7) {
      moved = restore_somewhere();
      moved = drop_somewhere() || moved;
    } else {
      moved = move_somewhere();
    }
    if (!moved) {
      stages_.rollback();
      continue;
    }
    const double change = energy() - before;
    if (change > 0 && random_.unit() >= std::exp(-change / heat)) {
      stages_.rollback();
      continue;
    }
    for (const auto& item : stages_.changes()) {
      if (item.added) {
        again_.emplace_back(item.stage, item.step);
      }
    }
    if (stages_.stages_over() == 0 && stages_.extra_time() < best_time * (1 - 1e-12) - 1e-300) {
      best_time = stages_.extra_time();
      best = stages_.table();
    }
  }
  stages_.load(best);
  relax(&stages_);
}

}  // namespace

void anneal(Stages* stages, int64_t work, uint64_t seed, const std::function<void(double)>& progress) {
  Annealer(stages, seed).run(work, progress);
}

}  // namespace encore::plan
