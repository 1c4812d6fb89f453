// What is known of the steps that a budget has seen: their models, their times, and plans for them.
#pragma once

#include <deque>
#include <optional>

#include "base/background.h"
#include "budget/itinerary.h"
#include "budget/thrift.h"

namespace encore::budget {

/// One kind of step.
struct KnownStep {
  std::shared_ptr<const StepModel> model;
  std::vector<std::vector<double>> seconds;             // samples of each step's time, by sample
  std::vector<std::shared_ptr<const Itinerary>> plans;  // for the model as it is, most recent last
  std::shared_ptr<const Itinerary> plan;                // to be followed; null: none fits, or none is needed yet
  // For what it was planned last, or is being planned.
  int64_t planned_limit_bytes = -1;
  size_t planned_samples = 0;
  int64_t planned_resting_bytes = -1;
  /// For what plans have been searched with the model as it is, those that went since apart: a limit that goes to and
  /// fro is not planned each time.
  std::vector<PlannedFor> searched;
  bool is_sketched = false;  // and not searched for yet
  bool is_being_planned = false;
  int64_t least_bytes = -1;    // the least budget for which a plan is known, as of the last time one was made
  Sight sight;                 // the last one
  bool went_smoothly = false;  // then: by its plan, and nothing was wanting
  bool hides_others = false;   // a step that needs plans was taken for it while it was routine
  int64_t seen_at = 0;         // the step that it was
  int64_t plans_made = 0;
  std::string trouble;  // what the last search ended with in place of a plan

  /// The fastest plan that fits, if what rests has changed by no more than bytes; or null.
  std::shared_ptr<const Itinerary> best_for(int64_t limit_bytes, int64_t resting_bytes) const;
  /// One more plan for the model as it is; of very many one goes: a sketch, or else the oldest.
  void add(Itinerary itinerary);
  /// What plans are for, from here on.
  void plan_for(int64_t limit_bytes, int64_t resting_bytes);
  /// Takes the fastest plan that fits, of those that there are.
  void choose();
  /// Whether there is a plan that was searched for this; then it is to be followed.
  bool has_searched(int64_t limit_bytes, int64_t resting_bytes, int64_t tolerance_bytes);
  /// Whether no plan is known that fits.
  bool has_no_plan(int64_t limit_bytes) const {
    return plan == nullptr && planned_limit_bytes == limit_bytes && !is_being_planned;
  }
  /// Whether it is known to need more.
  bool does_not_fit(int64_t limit_bytes) const { return has_no_plan(limit_bytes) && least_bytes > limit_bytes; }
};

/// Bounded: where there are more kinds than are kept, one is forgotten that has not been seen for longer than the new
/// one was away. So some of many kinds that come in turn keep their plans, where the least recent first would lose all.
class KnownSteps {
 public:
  /// A step of this kind has ended well and took so long.
  Sight see(uint64_t signature, double seconds);
  /// Whether a model of that step, which had so many events, is worth making.
  bool is_worth_learning(const Sight& sight, size_t events, bool followed_its_plan) const;
  /// Whether nothing new can be learnt of the next step if it is of this kind again, and nothing need be done in it.
  static bool is_routine(const KnownStep& step);
  /// Adds what was learnt in a step that ended well, in so many seconds.
  void learn(StepModel model, int64_t limit_bytes, const Sight& sight, double seconds);
  /// A kind of step that was rehearsed, with its plans, is expected next. What that took does not count: somebody asked
  /// for it.
  void rehearsed(const StepModel& model, std::vector<plan::Plan> plans, int64_t limit_bytes, int64_t resting_bytes);
  /// A plan for such a graph, with the least budget for which there is one if `minimum`. None for very many steps.
  static std::optional<plan::Plan> plan_for(const plan::Graph& graph, int64_t limit_bytes, bool minimum);
  /// A step of that kind was refused: it is expected to come again, with a larger limit.
  void expect_again(uint64_t signature) { latest_is_known_ = bring_to_front(signature) || latest_is_known_; }
  /// The kind of step that is expected next: the one that was seen last, if it is known; or null.
  KnownStep* latest();
  bool has_plans() const;
  /// A plan that fits the limit and whose event `index` has this path.
  std::shared_ptr<const Itinerary> find_plan(size_t index, uint64_t path, int64_t limit_bytes,
                                             int64_t resting_bytes) const;
  /// A kind of step whose event `index` has this path, and which is known not to fit the limit; or null.
  const KnownStep* find_unplanned(size_t index, uint64_t path, int64_t limit_bytes) const;
  /// Sees to a plan for the limit, unless there is one that is still good or it would cost too much: a sketch at once,
  /// and a better one that is made while training goes on and taken over before a later step. `waits`: the better one
  /// at once. Where there is no sketch it waits, too, since without a plan the step might be refused. Returns the
  /// seconds that this took.
  double prepare(KnownStep& step, int64_t limit_bytes, int64_t resting_bytes, bool waits);

  size_t size() const { return steps_.size(); }
  const Thrift& thrift() const { return thrift_; }

 private:
  /// A plan that was made beside the training, and what for.
  struct Made {
    std::shared_ptr<const StepModel> model;
    PlannedFor planned_for;
    plan::Plan plan;
    std::string trouble;  // why there is no plan; empty: there is an answer
    double seconds = 0;   // of the processor
  };

  bool bring_to_front(uint64_t signature);
  bool make_room_for(const StepModel& model, const Sight& sight);
  bool may_search(const KnownStep& step) const;
  static void sketch(KnownStep& step, const plan::Graph& graph);
  void order(KnownStep& step, plan::Graph graph);
  void take_over(std::chrono::milliseconds patience);
  static void add(KnownStep& step, Made made);

  std::deque<KnownStep> steps_;  // most recent first
  Thrift thrift_;
  int64_t seen_ = 0;  // steps
  bool latest_is_known_ = false;
  Background<Made> planning_;  // last, so that it ends first
};

}  // namespace encore::budget
