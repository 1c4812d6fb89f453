// Keeps one training step within the limit: follows a plan where there is one, evicts by price where there is none.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "budget/itinerary.h"
#include "budget/prices.h"
#include "checkpoint/replay_region.h"
#include "run/allocator.h"

namespace encore::budget {

// Smaller storages are not worth the bookkeeping: they stay where they are.
constexpr int64_t kSmallest = 512;

/// What is known when a step begins.
struct StepSetting {
  int64_t limit_bytes = run::Meter::kNoLimit;
  int64_t smallest_bytes = kSmallest;
  /// The plan to follow until the step shows that it is another one; may be null.
  std::shared_ptr<const Itinerary> first;
  /// Another plan for a step whose event `index` has this path, or null.
  std::function<std::shared_ptr<const Itinerary>(size_t index, uint64_t path)> find;
};

struct StepFigures {
  int64_t ops_replayed = 0;
  int64_t replays = 0;
  int64_t replay_ns = 0;
  int64_t evictions = 0;  // under pressure, not by plan
  int64_t evicted_bytes = 0;
  int64_t evict_ns = 0;
  std::string refused;  // what the last BudgetError out of an allocation said
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
  bool keeps(tape::ValueId value) override;
  void asked(tape::ValueId value) override;
  void replayed(int64_t ops, int64_t start_ns, int64_t duration_ns) override;
  bool holds_what_came_back() const override { return running_ && itinerary_ != nullptr; }
  void hint(tape::OpId first) override;

  void make_room(int64_t shortage, int64_t nbytes) override;

  const Journal& journal() const { return journal_; }
  /// Moves the journal out, at the end.
  Journal take_journal() { return std::move(journal_); }
  StepFigures figures() const;
  /// The plan that was followed to the end, or null.
  const std::shared_ptr<const Itinerary>& itinerary() const { return itinerary_; }

 private:
  class NodeObserver;

  void node_started(const char* name);
  void node_ended();
  void finish(Event event);
  void track_results(tape::OpId op, int32_t event);
  void begin();
  void find_released(int32_t event);
  bool pack(tape::ValueId value);
  void forget_refusal();
  void follow(size_t index);
  void act(size_t index, bool compute_too);
  void act(const Action& action, bool compute_too);
  /// With the tape's lock it also says which op was the largest.
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
  int64_t away_ns_ = 0;                               // replays and evictions since the event began
  std::vector<int32_t> loose_;                        // tracked storages that the user's code may still hold
  size_t cursor_ = 0;                                 // of the older ones of them
  std::unordered_map<tape::ValueId, bool> given_up_;  // by plan, so that a later handle does not keep it
  std::unordered_map<tape::ValueId, std::shared_ptr<const tape::PackedMask>> packed_;
  bool packing_ = false;  // another mask: its bits are not worth those that are there
  size_t followed_ = 0;   // events whose actions are done
  int depth_ = 0;         // of backward nodes
  Event node_;
  Prices prices_;
};

}  // namespace encore::budget
