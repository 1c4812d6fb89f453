// Plans of one graph at fixed budgets, the rungs, from which a plan for any budget is taken.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <encore/plan/planner.h>

#include "plan/cuts.h"
#include "plan/evicting.h"
#include "plan/stages.h"

namespace encore::plan {

/// What is found on a rung depends on the graph, the rung and the effort, never on the budget that was asked for. The
/// plan for a budget is the fastest of all rungs up to it; those are left out of which a lower bound says that they
/// can't be faster. So more memory is never slower, and what one budget can have is there for every larger one. The
/// effort of a rung is spent in passes, of which a larger effort has more after the same first ones: it is never slower
/// either.
class Ladder {
 public:
  struct Found {
    double extra_time = 0;
    int64_t peak_bytes = 0;
    const char* method = "";
    bool proven = false;  ///< Nothing on this rung is faster.
    Schedule schedule;    ///< Empty on a rung whose table says it.
    Stages::Table table;  ///< Empty if the schedule doesn't come from one.
    uint64_t passes = 0;  ///< Of annealing so far.
  };

  /// `graph` and `compact` are kept by reference. The least budget is searched for here.
  Ladder(const Graph& graph, const Compact& compact, const PlanOptions& options);

  /// No budget below has a plan; this one has.
  [[nodiscard]] int64_t least_bytes() const { return lowest_.peak_bytes; }
  [[nodiscard]] bool least_is_exact() const { return least_is_exact_; }
  [[nodiscard]] int64_t least_bound() const { return least_bound_; }
  /// The fastest plan within the budget, which is not below the least.
  Found best_within(int64_t budget_bytes);
  /// The plan with the lowest peak.
  [[nodiscard]] Schedule lowest_schedule() const { return schedule_of(lowest_); }
  /// No schedule within the budget has less extra time.
  double bound(int64_t budget_bytes);

 private:
  struct Rung {
    int64_t budget_bytes = 0;
    Found best;
    Found by_table;                  // The start of the passes, and what they made of it.
    int64_t work_left = 0;           // Of the passes.
    double passes_reach = INFINITY;  // They find nothing faster.
  };

  void find_least();
  void halve_down(Stages* stages);
  void press_down(Stages* stages);
  void press(Stages* stages);
  void press_others(int64_t from_bytes, Stages* stages);
  void heat_down(Stages* stages);
  void search_down();
  void probe_exact();
  void make_rungs();
  // Budgets as parts of what lies above the bytes at rest.
  [[nodiscard]] double part_of(int64_t budget_bytes) const;
  [[nodiscard]] int64_t bytes_at(double part) const;
  void offer(Stages* stages, const char* method, Found* best) const;
  void offer(EvictingRun run, int64_t budget_bytes, Found* best) const;
  void try_worth(size_t which, Stages* stages, Found* best) const;
  void try_online(double most_extra_time, Stages* stages, Found* best) const;
  void try_run(EvictingRun run, Stages* stages, Found* best) const;
  void try_greedy(Stages* stages, Found* best) const;
  [[nodiscard]] bool is_exact_rung(int64_t budget_bytes) const;
  Rung& begun(int64_t budget_bytes);
  void start(Rung* rung);
  void finish(Rung* rung);
  void take_fastest(Rung* rung) const;
  [[nodiscard]] Schedule schedule_of(const Found& found) const;
  void anneal_once(double reach, Stages* stages, Found* best) const;
  void go_on(int64_t budget_bytes);
  const Found* fastest(int64_t budget_bytes);
  const std::vector<size_t>& ways_at(int64_t budget_bytes);

  const Graph& graph_;
  const Compact& compact_;
  const PlanOptions& options_;
  int64_t peak_bytes_;
  int64_t rest_bytes_;  // Of the background, at all steps.
  int64_t effort_;
  bool has_forms_;
  CutBounds cuts_;
  bool try_exact_ = false;
  bool small_ = false;  // The exact search finishes at every budget.
  bool least_is_exact_ = false;
  int64_t least_bound_ = 0;
  std::vector<int64_t> budgets_;  // Of the rungs, rising; the first is the least.
  Found lowest_;
  std::map<int64_t, Rung> found_;
  std::map<int64_t, double> bounds_;
  std::map<int32_t, std::vector<size_t>> ways_;  // The best ways to start, by scout.
};

}  // namespace encore::plan
