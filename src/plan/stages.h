// A schedule as a table of recomputations, with its time and its memory kept up to date at every change.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/levels.h"
#include "plan/problem.h"

namespace encore::plan {

/// Stage t ends with the first computation of step t; before it, the stage may compute earlier steps again, in their
/// order. A value is carried from each event (computation or use) to the next unless that is a computation. So the set
/// of pairs (stage, step) of recomputations says everything, any such set is a valid schedule, and only the memory can
/// be wrong. This is the space of Checkmate's integer programme. Bytes are doubles: exact below 2^53.
class Stages {
 public:
  struct Use {
    int32_t stage;
    int32_t uses;
    bool computed;
  };

  struct Change {
    int32_t stage;  // kForm: the form of the step was changed.
    int32_t step;
    bool added;
    int32_t old_form;
  };
  static constexpr int32_t kForm = -1;

  /// Everything that makes up a schedule.
  struct Table {
    std::vector<std::vector<int32_t>> again;  // Recomputed steps by stage, rising.
    std::vector<int32_t> form;                // By step: the variant in which it rests, or -1.
  };

  /// `source` is only read here, for the variants.
  Stages(const Compact& graph, const Graph& source, double budget);

  void set_budget(double budget);
  /// Computes `step` again in stage `t`, step < t. It must not be computed there already.
  void add(int32_t t, int32_t step);
  /// Takes back a recomputation.
  void remove(int32_t t, int32_t step);
  /// Lets the value rest in this variant (-1: in none) wherever it may_rest().
  void set_form(int32_t step, int32_t variant);
  /// Whether a value that is carried from its event in stage `from` to that in stage `to` may take a smaller form in
  /// between: where nobody holds it any more, and the way is long enough.
  [[nodiscard]] bool may_rest(int32_t step, int32_t from, int32_t to) const;
  /// Takes back recomputations of stage t that nothing reads any more, starting with the inputs of `step`.
  void remove_useless(int32_t t, int32_t step);

  /// Recomputations made and taken back since begin(), newest last; rollback() undoes them
  /// down to the first `mark`.
  void begin() { log_.clear(); }
  void rollback(size_t mark = 0);
  /// Undoes changes that were made in this order, some time ago.
  void undo(std::vector<Change> changes);
  [[nodiscard]] const std::vector<Change>& changes() const { return log_; }

  [[nodiscard]] const Compact& graph() const { return graph_; }
  [[nodiscard]] double budget() const { return peak_.limit(); }
  [[nodiscard]] double extra_time() const { return extra_time_; }
  /// Sum over stages of the bytes above the budget, and the number of such stages.
  [[nodiscard]] double excess() const { return peak_.excess(); }
  [[nodiscard]] int32_t stages_over() const { return peak_.over(); }
  [[nodiscard]] double max_peak() const { return peak_.at(fullest(0, graph_.n)); }
  [[nodiscard]] double peak(int32_t t) const { return peak_.at(t); }
  /// The first of the stages from `first` to `last` with the highest peak.
  [[nodiscard]] int32_t fullest(int32_t first, int32_t last) const { return peak_.largest(first, last + 1); }
  [[nodiscard]] const std::vector<Use>& events(int32_t step) const { return events_[step]; }
  /// Index of the event of `step` at stage t, or of the first one after it.
  [[nodiscard]] int32_t event_at(int32_t step, int32_t t) const;
  [[nodiscard]] bool computed_at(int32_t t, int32_t step) const;
  /// Whether the value is in memory between stages t - 1 and t.
  [[nodiscard]] bool carried_into(int32_t t, int32_t step) const;
  [[nodiscard]] const std::vector<int32_t>& recomputed(int32_t t) const { return again_[t]; }
  /// Elementary operations so far; the search is limited by them.
  [[nodiscard]] int64_t work() const { return work_; }

  [[nodiscard]] const std::vector<Variant>& variants(int32_t step) const { return variants_[step]; }
  [[nodiscard]] int32_t form(int32_t step) const { return form_[step]; }

  [[nodiscard]] Table table() const { return {again_, form_}; }
  void load(const Table& table);
  [[nodiscard]] Schedule schedule();

 private:
  void add_use(int32_t step, int32_t t);
  void remove_use(int32_t step, int32_t t);
  void shift(int32_t first_border, int32_t last_border, double bytes);
  void touch(int32_t t);
  void settle();
  void evaluate(int32_t t);
  void lay(int32_t step, double sign);
  void do_set_form(int32_t step, int32_t variant);
  [[nodiscard]] const Variant* resting_out(int32_t step, int32_t t) const;
  [[nodiscard]] const Variant* resting_in(int32_t step, int32_t t) const;
  void find_resting(int32_t t);
  [[nodiscard]] bool carried_out(int32_t step, int32_t t) const;
  void do_add(int32_t t, int32_t step);
  void do_remove(int32_t t, int32_t step);

  const Compact& graph_;
  double extra_time_ = 0;
  int64_t work_ = 0;
  std::vector<double> bytes_;
  std::vector<double> temp_;
  std::vector<double> background_;
  std::vector<std::vector<int32_t>> again_;  // By stage.
  std::vector<std::vector<Use>> events_;     // By step.
  Levels carried_;                           // Bytes between stages t - 1 and t.
  Levels peak_;                              // By stage; its limit is the budget.
  std::vector<int32_t> dirty_;
  std::vector<char> is_dirty_;
  std::vector<int32_t> mark_;
  int32_t stamp_ = 0;
  std::vector<Change> log_;
  std::vector<std::vector<Variant>> variants_;
  std::vector<int32_t> form_;
  int32_t formed_ = 0;            // Steps with a form.
  std::vector<int32_t> resting_;  // Of the stage being evaluated: steps with a form, rising.
};

}  // namespace encore::plan
