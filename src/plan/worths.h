// What values are worth that are in memory, to a run that has to let some of them go.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/problem.h"

namespace encore::plan {

/// What a value that is in memory is worth: the time to have it again, with what is gone around it, for each byte, and
/// for each step until it is read next (or since it was used last).
struct Worth {
  double distance = 1;     ///< Power of the distance.
  double around = 1;       ///< How much what is gone around a value counts.
  bool deep = true;        ///< Counts what the plain run no longer has either when the value is read next.
  bool look_back = false;  ///< The distance is the time since the last use, as for one who doesn't know the future.
  bool spare = false;      ///< Rather than what is dear, a sweep lets go of what it will read itself.
};

/// Knows what is gone, as the run tells it.
class Worths {
 public:
  Worths(const Compact& graph, const Worth& worth);

  void set_gone(int32_t step);
  void set_back(int32_t step);
  /// Time goes on by one with each computation.
  void set_used(int32_t step) { last_use_[step] = clock_; }
  void tick() { clock_ += 1; }

  /// The worth without what is gone around the value, never more than the whole; `share` is what one of time counts.
  double alone(int32_t step, int32_t stage, double* share);
  /// What is gone around the value, in time.
  double around(int32_t step);
  double whole(int32_t step, int32_t stage);
  [[nodiscard]] const Worth& weights() const { return worth_; }
  /// Whether many steps have to run again for the value where it is read next, even in the plain run.
  bool is_dear(int32_t step, int32_t stage);
  /// Elementary operations so far.
  [[nodiscard]] int64_t work() const { return work_; }

 private:
  int32_t find(int32_t set);
  double time_again(int32_t step, const int32_t* next);

  const Compact& graph_;
  Worth worth_;
  int64_t work_ = 0;
  double clock_ = 0;
  std::vector<double> last_use_;
  std::vector<int32_t> set_, parent_;  // Sets of neighbours that are gone,
  std::vector<double> cost_;           // with the time that it takes to have them all again.
  std::vector<int32_t> near_;
  std::vector<double> time_again_;  // By use.
  std::vector<int32_t> seen_;
  int32_t stamp_ = 0;
  std::vector<double> powers_;  // Of distances.
};

}  // namespace encore::plan
