// Keeps one training step within the limit: follows a plan where there is one, evicts by price where there is none.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include <encore/error.h>
#include "budget/foresight.h"
#include "budget/itinerary.h"
#include "budget/prices.h"
#include "budget/undo.h"

#include "checkpoint/replay_region.h"
#include "run/allocator.h"

namespace encore::budget {

// Smaller storages are not worth the bookkeeping: they stay where they are.
constexpr int64_t kSmallest = 512;

inline run::Meter& meter() {
  return run::Meter::instance();
}

/// What is known when a step begins.
struct StepSetting {
  int64_t limit_bytes = run::Meter::kNoLimit;
  int64_t smallest_bytes = kSmallest;
  bool leaves_no_trace = false;  // a rehearsal: all that it writes to is put back
  /// What to do where an allocation does not fit and nothing is left to give up: refuse it, or go on without a limit to
  /// learn what a step of a kind never seen needs, or in any step.
  enum class AtTheEnd : uint8_t { kRefuse, kLearnNewKinds, kLearn } at_the_end = AtTheEnd::kRefuse;
  /// The step as it was last time, if no plan for it fits the limit.
  struct Unplanned {
    std::shared_ptr<const StepModel> model;
    int64_t least_bytes = 0;  // for which a plan is known
    std::string text;         // for a refusal
  } unplanned;
  /// The plan to follow until the step shows that it is another one; may be null.
  std::shared_ptr<const Itinerary> first;
  /// Another plan for a step whose event `index` has this path, or null; empty where there are none.
  std::function<std::shared_ptr<const Itinerary>(size_t index, uint64_t path)> find;
};

struct StepFigures {
  int64_t ops_replayed = 0;
  int64_t replays = 0;
  int64_t replay_ns = 0;
  int64_t evictions = 0;  // under pressure, not by plan
  int64_t evicted_bytes = 0;
  int64_t evict_ns = 0;
  std::optional<BudgetError> refused;  // the last one out of an allocation
  size_t refused_at = 0;               // event
  bool limit_was_lifted = false;       // see StepSetting::AtTheEnd
  int64_t process_bytes = 0;           // resident, at its most when it was looked at
  int64_t plain_peak_bytes = 0;        // what plain training would have held at its most, as far as was looked at
  int64_t foreign_bytes = 0;           // of tensors that ops read and no allocator of LibTorch's made
  bool left_plan = false;
  std::string left_at;
};

class StepGovernor final : public Governor, public run::Limiter, public std::enable_shared_from_this<StepGovernor> {
 public:
  explicit StepGovernor(StepSetting setting);
  ~StepGovernor() override;

  /// Puts the limit on and begins to watch backward on this thread.
  void start(const std::shared_ptr<ReplayRegion>& region);
  /// Takes both off; safe to call twice. What autograd still holds can be asked for afterwards.
  void stop();

  /// An op is about to run.
  void op_starts();
  void recorded(tape::OpId op) override;
  void asked(tape::ValueId value) override;
  void starts(const tape::PendingOp& op) override;
  void accumulates_into(const at::Tensor& leaf) override;
  void replayed(int64_t ops, int64_t start_ns, int64_t duration_ns) override;
  bool holds_what_came_back() const override { return running_ && itinerary_ != nullptr; }
  bool wants(tape::ValueId value) const override;
  void hint(tape::OpId first) override;

  void make_room(int64_t shortage, int64_t nbytes) override;

  const Journal& journal() const { return journal_; }
  /// Moves the journal out, at the end.
  Journal take_journal() { return std::move(journal_); }
  StepFigures figures() const;
  Undo& undo() { return undo_; }
  /// The plan that was followed to the end, or null.
  const std::shared_ptr<const Itinerary>& itinerary() const { return itinerary_; }

 private:
  class NodeObserver;

  void node_started(const char* name);
  void node_ended();
  void finish(Event event);
  bool track_results(tape::OpId op, int32_t event);
  void begin();
  void find_released(int32_t event);
  bool pack(tape::ValueId value);
  void forget_refusal();
  void follow(size_t index);
  void act(size_t index, bool compute_too);
  void act(const Action& action, bool compute_too);
  void count_outside_storages();
  void look_at_process();
  int64_t evict_cheapest(ReplayRegion& region, const std::vector<tape::ValueId>& held, int64_t wanted);
  int64_t plain_bytes_now() const;
  void foresee(int64_t bytes_to_come);
  bool lift_limit(bool is_locked);
  bool is_as_expected() const;
  int64_t least_to_state(int64_t nbytes) const;
  std::string running_op() const;
  std::string text_of_held() const;
  std::string text_of_refusal(const BudgetError::Figures& figures, int64_t shortage, int64_t nbytes, bool is_locked,
                              bool is_as_last) const;
  /// With the tape's lock it also says which op it was, and what the step will need.
  [[noreturn]] void refuse(int64_t shortage, int64_t nbytes, bool is_locked);

  StepSetting setting_;
  std::weak_ptr<ReplayRegion> region_;
  std::shared_ptr<const Itinerary> itinerary_;
  Journal journal_;
  StepFigures figures_;
  mutable std::mutex refused_mutex_;  // of figures_.refused, which workers of parallel ops set without the tape's lock
  std::atomic<bool> running_{false};  // becomes false under the tape's lock: then nothing here changes any more
  std::thread::id thread_;
  int64_t other_now_ = 0;
  int64_t away_ns_ = 0;         // replays and evictions since the event began
  std::vector<int32_t> loose_;  // tracked storages that the user's code may still hold
  size_t cursor_ = 0;           // of the older ones of them
  bool packing_ = false;        // another mask: its bits are not worth those that are there
  size_t followed_ = 0;         // events whose actions are done
  int depth_ = 0;               // of backward nodes; the observer counts
  Event node_;
  const tape::OpInfo* op_now_ = nullptr;  // that runs, or ran last
  int64_t live_at_start_ = 0;
  int32_t storages_seen_ = 0;
  size_t looked_at_ = 0;                // event at which it was last looked at what plain training would hold
  std::atomic<int64_t> plain_peak_{0};  // what plain training would have held at its most, as far as was looked at
  int64_t graph_peak_ = 0;              // of it, in forward and backward
  int64_t batch_ = 0;                   // what is freed at a time under pressure
  size_t pressed_at_ = 0;               // event
  std::atomic<int64_t> to_come_bytes_{
      0};  // after the op that runs, foreseen: what it allocates must leave that much free
  std::atomic<bool> limit_was_lifted_{false};
  uint8_t slot_ = 0;  // of thread_, with the meter
  Prices prices_;
  Undo undo_{setting_.leaves_no_trace};
  Foresight foresight_{undo_};
};

}  // namespace encore::budget
