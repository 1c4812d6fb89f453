// Limits and ways to start that all of the ladder shares.
#pragma once

#include <cstdint>

#include "plan/evicting.h"

namespace encore::plan {

constexpr int64_t kWorkUnit = 1'000'000;
// The work of a start, and of relaxing it. What doesn't fit after so much seldom does.
constexpr int64_t start_work(int32_t n) {
  return n < 2000 ? 2 * kWorkUnit + 3'000 * static_cast<int64_t>(n) : 8 * kWorkUnit;
}
// The work of each try to get lower.
constexpr int64_t press_work(int32_t n) {
  return (n <= 300 ? 20 : 6) * kWorkUnit;
}
// The work of annealing into a budget that nothing keeps so far. Small graphs have few ways to do it.
constexpr int64_t hot_work(int32_t n) {
  return n <= 64 ? 8 * kWorkUnit : kWorkUnit;
}

// The work of the memory's lower bound.
constexpr int64_t path_work(int32_t n) {
  return 12 * kWorkUnit + 20'000 * static_cast<int64_t>(n);
}

// Ways to weigh what is in memory, the most useful ones first.
constexpr Worth kWorths[] = {
    {0.3, 0.3, true, false, false}, {1, 0.1, true, false, false}, {1, 1, false, false, false},
    {0.5, 1, true, false, true},    {1, 0.3, true, false, true},  {1, 0.3, false, false, false},
    {1, 1, true, false, false},     {1, 1, false, true, false},
};

}  // namespace encore::plan
