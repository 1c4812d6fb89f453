// What learning and planning may cost: a share of the time of training, and more only where they surely pay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace encore::budget {

/// How often a kind of step was seen.
struct Sight {
  int64_t count = 0;     // this time included
  int64_t distance = 0;  // steps since the time before; 0: there was none
  int64_t number = 0;    // of kinds that were seen before this one was first seen
  int64_t streak = 0;    // how many steps in a row were of this kind, this one included
};

/// A step that is never seen again is not worth a model and a plan, and whether it will be is not known when it ends.
/// So of a kind that is new only a hash is kept, unless steps have come back often so far. Kinds that come back are
/// learnt and planned within a share of the time of training.
///
/// That share must not depend on the clock where a training is steady, or no two runs would be alike: the first two
/// kinds (with and without the optimizer's state), and those that come several times in a row, have a number of plans
/// whatever they cost.
class Thrift {
 public:
  static constexpr double kShare = 0.05;

  /// A step of this kind has ended well.
  Sight see(uint64_t signature);
  /// Kinds seen so far; after very many of them those that did not come back are counted anew.
  int64_t kinds() const { return kinds_; }

  void trained(double seconds) { trained_seconds_ += seconds; }
  void learnt(double seconds, size_t events);
  void planned(double seconds, size_t events);
  void sketched(double seconds, size_t events);
  double trained_seconds() const { return trained_seconds_; }
  double spent_seconds() const { return spent_seconds_; }

  /// Whether a step of so many events, of which there is no model, is worth one.
  bool may_learn(const Sight& sight, size_t events) const;
  /// Whether there may be another plan for a kind that has had so many.
  bool may_plan(const Sight& sight, int64_t plans, size_t events) const;
  /// The same for a sketch, which takes a hundredth of that.
  bool may_sketch(const Sight& sight, size_t events) const;

 private:
  struct Seen {
    Sight sight;
    int64_t last = 0;  // step
  };

  static bool is_entitled(const Sight& sight) { return sight.number < 2 || sight.streak > 1; }
  bool can_afford(double seconds) const { return spent_seconds_ + seconds <= kShare * trained_seconds_; }

  std::unordered_map<uint64_t, Seen> recent_, older_;  // two generations: what is not seen in either is forgotten
  int64_t steps_ = 0;
  int64_t kinds_ = 0;
  int64_t again_ = 0;  // steps of a kind that had been seen before
  uint64_t last_ = 0;  // signature
  int64_t streak_ = 0;
  int64_t plans_ = 0;  // made so far
  double trained_seconds_ = 0;
  double spent_seconds_ = 0;
  double learning_each_seconds_ = 0;  // event, as far as is known
  double planning_each_seconds_ = 0;
  double sketching_each_seconds_ = 0;
};

}  // namespace encore::budget
