// Simulated annealing over tables of recomputations.
#include "plan/search.h"

#include <algorithm>
#include <array>
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

// The heat starts at the mean time of a step and ends at this part of it.
constexpr double kCooling = 1e-3;
// What it costs to exceed the budget by all of itself in one stage, in mean times of a step, at first and in the end.
constexpr double kFirstWeight = 300;
constexpr double kWeightGrowth = 100;
// While no table is known that fits, these are tried in turn, each from what the last one left: much heat, little
// weight and slow cooling, so that recomputations cost next to nothing.
struct Climate {
  double heat = 1;
  double weight = 1;
  double cooling = kCooling;
};
constexpr std::array<Climate, 4> kHot = {{{10, 0.3, 0.1}, {30, 1, 0.1}, {5, 0.1, 0.3}, {20, 0.1, 0.1}}};

// The moves of the annealing: drop a value in a gap, take a recomputation back, or both.
class Annealer {
 public:
  Annealer(Stages* stages, uint64_t seed) : stages_(*stages), graph_(stages->graph()), random_(seed) {
    for (int32_t i = 0; i < graph_.n; ++i) {
      if (graph_.bytes[i] > 0 && graph_.users(i).size() > 0 && graph_.may_recompute(i, graph_.users(i).end()[-1])) {
        values_.push_back(i);
      }
    }
    for (const int32_t i : values_) {
      if (!stages_.variants(i).empty()) {
        formable_.push_back(i);
      }
    }
    for (int32_t t = 0; t <= graph_.n; ++t) {
      for (const int32_t step : stages_.recomputed(t)) {
        again_.emplace_back(t, step);
      }
    }
  }

  // `until_fit`: the first table that fits ends the run.
  void run(int64_t work, const Climate& climate, bool until_fit, const std::function<void(double)>& progress);

 private:
  [[nodiscard]] double energy() const { return stages_.extra_time() + weight_ * stages_.excess(); }
  bool drop_somewhere();
  bool restore_somewhere();
  bool move_somewhere();
  bool restore_and_repair();
  void repair(int32_t low, int32_t high);
  bool change_form();

  Stages& stages_;
  const Compact& graph_;
  Random random_;
  double weight_ = 0;
  std::vector<int32_t> formable_;                   // Values with variants.
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
  if (!graph_.may_recompute(step, t)) {
    return false;
  }
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
  if (to == t || to <= step || !graph_.may_recompute(step, to)) {
    return false;
  }
  stages_.remove(t, step);
  stages_.remove_useless(t, step);
  if (!stages_.computed_at(to, step)) {
    evict(&stages_, to, step, &random_);
  }
  return true;
}

bool Annealer::change_form() {
  if (formable_.empty()) {
    return false;
  }
  const int32_t step = formable_[random_.below(static_cast<int32_t>(formable_.size()))];
  const int32_t form = random_.below(static_cast<int32_t>(stages_.variants(step).size()) + 1) - 1;
  if (form == stages_.form(step)) {
    return false;
  }
  stages_.set_form(step, form);
  return true;
}

// Takes a recomputation back and, where that is too much, drops something else instead.
bool Annealer::restore_and_repair() {
  if (again_.empty()) {
    return false;
  }
  const auto [t, step] = again_[random_.below(static_cast<int32_t>(again_.size()))];
  if (!stages_.computed_at(t, step)) {
    return restore_somewhere();
  }
  const int32_t low = stages_.events(step)[stages_.event_at(step, t) - 1].stage;
  stages_.remove(t, step);
  stages_.remove_useless(t, step);
  repair(low, t);
  return true;
}

void Annealer::repair(int32_t low, int32_t high) {
  for (int32_t round = 0; round < 3 && stages_.stages_over() > 0; ++round) {
    const int32_t worst = stages_.fullest(low, high);
    if (stages_.peak(worst) <= stages_.budget()) {
      return;
    }
    const size_t mark = stages_.changes().size();
    double best = energy();
    std::pair<int32_t, int32_t> chosen{-1, -1};
    int32_t found = 0;
    for (int32_t tries = 0; tries < 40 && found < 6; ++tries) {
      const int32_t step = values_[random_.below(static_cast<int32_t>(values_.size()))];
      if (step >= worst) {
        continue;
      }
      const auto& events = stages_.events(step);
      const int32_t k = stages_.event_at(step, worst);
      if (k == static_cast<int32_t>(events.size()) || events[k].computed || events[k].stage == worst) {
        continue;
      }
      const int32_t t = events[k].stage;
      if (!graph_.may_recompute(step, t)) {
        continue;
      }
      ++found;
      evict(&stages_, t, step, &random_);
      if (energy() < best) {
        best = energy();
        chosen = {t, step};
      }
      stages_.rollback(mark);
    }
    if (chosen.first < 0) {
      return;
    }
    evict(&stages_, chosen.first, chosen.second, &random_);
  }
}

void Annealer::run(int64_t work, const Climate& climate, bool until_fit, const std::function<void(double)>& progress) {
  if (values_.empty()) {
    return;
  }
  const int64_t start = stages_.work();
  std::vector<Stages::Change> since_best;
  double best_time = stages_.stages_over() == 0 ? stages_.extra_time() : INFINITY;
  double best_excess = stages_.excess();
  const double unit = std::max(graph_.total_time, 1e-300) / graph_.n;
  int64_t tried = 0;
  while (true) {
    const double part = static_cast<double>(stages_.work() - start) / static_cast<double>(work);
    if (part >= 1 || tried > work || (until_fit && stages_.stages_over() == 0)) {
      break;
    }
    const double heat = unit * climate.heat * std::pow(climate.cooling, part);
    weight_ = kFirstWeight * climate.weight * std::pow(kWeightGrowth, part) * unit / std::max(1.0, stages_.budget());
    if (progress && tried % 4096 == 0) {
      progress(part);
    }
    ++tried;
    stages_.begin();
    const double before = energy();
    const int32_t kind = random_.below(8);
    bool moved = false;
    if (!formable_.empty() && random_.below(4) == 0) {
      moved = change_form();
      moved = (random_.below(2) == 0 ? drop_somewhere() : restore_somewhere()) || moved;
    } else if (kind < 2) {
      moved = drop_somewhere();
    } else if (kind < 4) {
      moved = restore_somewhere();
    } else if (kind < 5) {
      moved = restore_somewhere();
      moved = drop_somewhere() || moved;
    } else if (kind < 7) {
      moved = restore_and_repair();
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
      since_best.push_back(item);
    }
    if (stages_.stages_over() == 0 && stages_.extra_time() < best_time * (1 - 1e-12)) {
      best_time = stages_.extra_time();
      since_best.clear();
    } else if (best_time == INFINITY && stages_.excess() < best_excess) {
      best_excess = stages_.excess();
      since_best.clear();
    }
  }
  stages_.undo(std::move(since_best));
  if (stages_.stages_over() == 0) {
    relax(&stages_, work);
  }
}

}  // namespace

bool cool_into(Stages* stages, int64_t work, uint64_t seed) {
  for (const Climate& climate : kHot) {
    if (stages->stages_over() > 0) {
      Annealer(stages, ++seed).run(work, climate, true, {});
    }
  }
  return stages->stages_over() == 0;
}

void anneal(Stages* stages, int64_t work, double heat, uint64_t seed, const std::function<void(double)>& progress) {
  Annealer(stages, seed).run(work, {heat, 1, kCooling}, false, progress);
}

}  // namespace encore::plan
