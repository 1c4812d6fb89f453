// A lower bound of memory: what is there when the last way to a step is closed.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/blocking.h"
#include "plan/problem.h"

namespace encore::plan {

/// Take a step and any earlier values C. At first all paths of reads from C to the step are free of values in memory;
/// when it runs, none is. The last path that was free before all are blocked is closed by computing its first value, as
/// what it reads on that path isn't there. Then that value, what it reads, and values that block every other path, none
/// of them on the last one, are in memory at once. The least of that over all paths is a bound, for any C.
///
/// C is found from all earlier values by leaving out those whose paths can be the last within too little memory: what
/// remains when nothing more can be left out is the best there is. Paths to the same value are told apart by what is
/// cut off from C with them: to keep that free too takes no more. Of two paths one is left out that has all that the
/// other has, and where there are many, two are replaced by what they have in common, which only weakens the bound.
class LastPath {
 public:
  /// `compact` and `graph` are the same, kept by reference.
  LastPath(const Compact& compact, const Graph& graph);

  /// Whether no schedule in order computes the step (n: has all outputs in memory) within less than `bytes`. False if
  /// that isn't shown within the work.
  bool needs(int32_t step, int64_t bytes, int64_t max_work);
  /// Elementary operations so far.
  [[nodiscard]] int64_t work() const { return work_ + blocking_.work(); }

 private:
  using Set = std::vector<uint64_t>;
  // Paths from a value on: what is on all of them, and what is cut off with each.
  struct Way {
    Set on, off;
  };
  // What was found out: what is cut off when a path goes on through a value, or what it can't be with.
  struct Passed {
    Set before, after;
  };
  struct Stopped {
    Set with;
    std::vector<int32_t> origins;
    size_t inputs_left;
  };
  struct Value {
    std::vector<Way> ways;
    std::vector<Passed> passed;
    std::vector<Stopped> stopped, not_first, not_first_on;
  };

  void begin(int32_t step);
  bool sweep(int64_t bytes, int64_t max_work, bool* left_out);
  bool can_be_first(int32_t value, const std::vector<Way>& ways, int64_t bytes);
  bool is_too_much(const Set& sinks, const std::vector<int32_t>& there, int64_t bytes, std::vector<Stopped>* known);
  void pass(int32_t value, const std::vector<Way>& ways, int64_t bytes);
  void add(Way way, std::vector<Way>* ways);
  bool is_within(const Set& a, const Set& b);
  bool holds(const Stopped& stopped, const Set& with, size_t inputs_left);
  const std::vector<int32_t>& items(const Set& set, int32_t value);

  const Compact& graph_;
  Reads reads_;
  std::vector<int64_t> bytes_;  // In the smallest form.
  std::vector<char> is_ancestor_, is_left_;
  Blocking blocking_;
  int32_t target_ = 0;
  std::vector<int64_t> background_;  // The least from each step to the target.
  size_t most_ways_;
  size_t words_ = 0;
  Set ancestors_;
  std::vector<Value> values_;
  std::vector<int32_t> items_;
  int64_t work_ = 0;
};

}  // namespace encore::plan
