// Makes room for an allocation that would pass the limit: gives up what is cheapest, or refuses it.
#pragma once

#include <atomic>

#include "budget/follower.h"
#include "budget/foresight.h"
#include "budget/prices.h"

namespace encore::budget {

/// What a step is made of besides; all outlives the evictor.
struct AroundEvictor {
  const StepSetting& setting;
  JournalWriter& writer;
  const Follower& follower;
  const Undo& undo;
  const Foresight& foresight;
  LastRefusal& refused;
};

/// Of one step. Callers hold the tape's lock, but for begin(), make_room() and tell().
class Evictor final : public run::Limiter {
 public:
  explicit Evictor(const AroundEvictor& around) : around_(around) {}

  void begin(const std::shared_ptr<region::ReplayRegion>& region);
  /// From here on nothing is given up.
  void end() { running_ = false; }
  void make_room(int64_t shortage, int64_t nbytes) override;

  /// From here on allocations must leave so many bytes free.
  void foresee(int64_t bytes_to_come);
  /// Now that a backward begins: what plain training would hold.
  void look_at_plain_peak();
  Prices& prices() { return prices_; }
  /// What the figures of the step have from it.
  void tell(StepFigures& figures) const;

 private:
  void make_room_locked(region::ReplayRegion& region, int64_t shortage, int64_t nbytes);
  int64_t evict_cheapest(region::ReplayRegion& region, const std::vector<tape::ValueId>& held, int64_t wanted);
  int64_t plain_bytes_now(const region::ReplayRegion& region) const;
  bool lift_limit(bool is_locked);
  bool is_as_expected() const;
  StepSetting::Unplanned unplanned_so_far() const;
  int64_t least_to_state(const region::ReplayRegion& region, int64_t nbytes) const;
  std::string text_of_held(const region::ReplayRegion& region) const;
  /// With the tape's lock it also says which op it was, and what the step will need. Null without it.
  [[noreturn]] void refuse(const region::ReplayRegion* region, int64_t shortage, int64_t nbytes);

  const AroundEvictor around_;
  std::weak_ptr<region::ReplayRegion> region_;
  std::atomic<bool> running_{false};
  uint8_t slot_ = 0;  // of the step's thread, with the meter
  int64_t live_at_start_ = 0;
  Prices prices_;
  size_t looked_at_ = 0;                // event at which it was last looked at what plain training would hold
  std::atomic<int64_t> plain_peak_{0};  // what plain training would have held at its most, as far as was looked at
  int64_t graph_peak_ = 0;              // of it, in forward and backward
  int64_t batch_ = 0;                   // what is freed at a time under pressure
  size_t pressed_at_ = 0;               // event
  // After the op that runs, foreseen: what it allocates must leave that much free.
  std::atomic<int64_t> to_come_bytes_{0};
  std::atomic<bool> limit_was_lifted_{false};
  std::optional<uint64_t> refused_as_;
  int64_t evictions_ = 0;
  int64_t evicted_bytes_ = 0;
  int64_t evict_ns_ = 0;
};

}  // namespace encore::budget
