// Greedy construction and local search over tables of recomputations.
#pragma once

#include <cstdint>
#include <functional>

#include "plan/stages.h"

namespace encore::plan {

/// A small generator whose numbers are the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  int32_t below(int32_t n) { return static_cast<int32_t>((next() >> 33) % static_cast<uint64_t>(n)); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

/// Recomputes `step` in stage t, and so lets go of it before. An input that isn't there either is kept from its last
/// event on if the budget allows that, and recomputed too if not; `random`, if given, sometimes decides otherwise.
void evict(Stages* stages, int32_t t, int32_t step, Random* random);

/// Drops values, the cheapest for the bytes first, until every stage keeps the budget. False if it gets stuck
/// or has done `max_work`.
bool make_fit(Stages* stages, int64_t max_work);

/// The lowest peak that dropping can reach, not below `least`; the budget of `stages` is changed on the way.
int64_t lower_peak(Stages* stages, double least, int64_t max_work);

/// Takes back recomputations that the budget doesn't need. The table must fit, and still does. Ends after `max_work`.
void relax(Stages* stages, int64_t max_work);

/// Annealing with much heat and little else in mind than to keep the budget. True if it does.
bool cool_into(Stages* stages, int64_t work, uint64_t seed);

/// Simulated annealing. `stages` ends with the fastest table that fits, or that with the least excess if none was
/// found. Stops after `work`. The heat is in mean times of a step.
void anneal(Stages* stages, int64_t work, double heat, uint64_t seed, const std::function<void(double)>& progress);

}  // namespace encore::plan
