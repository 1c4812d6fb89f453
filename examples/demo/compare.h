// The same training steps in several ways: what each needs, and whether it computes the same.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <encore/budget.h>

#include "models.h"

namespace demo {

/// One way to train.
struct Way {
  explicit Way(std::string n) : name(std::move(n)) {}

  std::string name;
  int64_t limit_bytes = -1;  ///< -1: none
  int64_t resting_bytes = 0;
  int64_t peak_bytes = 0;
  double step_seconds = 0;  ///< median
  bool bit_identical = false;
  std::string refusal;  ///< why it could not be done; empty if it was
};

/// Losses and gradients of each step, as bytes outside of tensors, so that keeping them changes no peak.
struct Trace {
  std::vector<double> losses;
  std::vector<std::vector<char>> gradients;
};

class Comparison {
 public:
  explicit Comparison(const Subject& subject) : subject_(subject) {}

  /// Without a budget. While any MemoryBudget lives, freed blocks are used again, which makes all training of the
  /// process faster: for figures of plain LibTorch, call this before the first budget is made.
  void measure_plain();
  /// Encore with several parts of what the plain step needs above what rests, and with the least that works.
  void measure_budgets();

  const std::string& name() const { return subject_.name; }
  const std::vector<Way>& ways() const { return ways_; }
  /// For the report; without the ways that were refused.
  std::vector<encore::RunSystem> systems() const;
  /// As a table for people.
  void print() const;
  bool all_bit_identical() const;

 private:
  /// Without a limit: the least one that is known to work.
  Way measure_budget(const std::string& name, std::optional<int64_t> limit_bytes) const;

  Subject subject_;
  Trace plain_;
  std::vector<Way> ways_;
};

}  // namespace demo
