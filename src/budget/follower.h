// Follows a plan: between two events values are held, packed, dropped and brought back as it says.
#pragma once

#include "budget/journal_writer.h"
#include "budget/refusals.h"
#include "budget/step_setting.h"
#include "region/replay_region.h"

namespace encore::budget {

/// Of one step, under the tape's lock. A plan is advice: where it can't be followed, what is needed comes back when it
/// is asked for.
class Follower {
 public:
  /// All three outlive this.
  Follower(const StepSetting& setting, JournalWriter& writer, LastRefusal& refused)
      : setting_(setting), writer_(writer), refused_(refused), itinerary_(setting.first) {}

  /// Does what is to be done when event `index` has ended, as far as the step is the one that was planned.
  void follow(region::ReplayRegion& region, size_t index);
  /// The step turned out to be another one here.
  void leave(std::string where);
  /// Steps without a plan pack masks as soon as nobody else holds them, and let go of the whole where memory is wanted:
  /// packing needs some itself. False if the value is no mask, or there is no room for its bits.
  bool pack(region::ReplayRegion& region, tape::ValueId value);

  /// The plan that is followed, or was to the end; null if there is none.
  const std::shared_ptr<const Itinerary>& itinerary() const { return itinerary_; }
  bool is_packing() const { return packing_; }
  /// Where the step has left its plan; none if it did not.
  const std::optional<std::string>& left_at() const { return left_at_; }

 private:
  void act(region::ReplayRegion& region, size_t index, bool compute_too);
  void act(region::ReplayRegion& region, const Errand& errand, bool compute_too);

  const StepSetting& setting_;
  JournalWriter& writer_;
  LastRefusal& refused_;
  std::shared_ptr<const Itinerary> itinerary_;
  std::optional<std::string> left_at_;
  size_t followed_ = 0;   // events whose errands are done
  bool packing_ = false;  // another mask: its bits are not worth those that are there
};

}  // namespace encore::budget
