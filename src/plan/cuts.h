// A lower bound on time at every budget, by minimum cuts.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/problem.h"

namespace encore::plan {

/// While step t runs, everything that is read later is in memory, or is computed again afterwards from what is. With a
/// price for each byte in memory the cheapest choice is a minimum cut; its cost less the price of the memory that there
/// is bounds the extra time at every budget at once. Each cut is one such line.
class CutBounds {
 public:
  /// Stops after about so many elementary operations, with what is found by then.
  CutBounds(const Compact& graph, const Graph& source, int64_t max_work);

  /// No schedule in order within the budget has less extra time.
  [[nodiscard]] double at(int64_t budget_bytes) const;

 private:
  struct Line {
    double time;   // With no memory at all besides what step t takes itself, which is `bytes`.
    double price;  // Of a byte.
    int64_t bytes;
  };
  std::vector<Line> lines_;
};

}  // namespace encore::plan
