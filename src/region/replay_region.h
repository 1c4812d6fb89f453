// A region whose values are brought back by replay: checkpoints, scopes, segments.
#pragma once

#include <set>

#include <encore/policy.h>
#include <encore/recompute.h>

#include "record/recorder.h"
#include "region/governor.h"
#include "store/form.h"

namespace encore::region {

class ReplayHandle;
class ReplayRegion;

/// Regions that are recomputed together, once.
struct RegionGroup {
  std::mutex mutex;  // of the list; taken before no other
  std::vector<std::weak_ptr<ReplayRegion>> regions;

  void add(const std::shared_ptr<ReplayRegion>& region);
  std::vector<std::shared_ptr<ReplayRegion>> alive();
};

struct RegionOptions {
  std::string name;
  Policy policy = drop_all();
  DeterminismCheck check = DeterminismCheck::kMetadata;
  bool preserve_rng_state = true;
  bool is_checkpoint = true;  // false for a scope that only records
  bool together = true;       // the first value asked for brings back all of the region
  std::shared_ptr<RegionGroup> group;
  std::shared_ptr<record::Subscriber> subscriber;
  std::shared_ptr<Governor> governor;  // in place of the policy and of a subscriber
};

class ReplayRegion final : public record::Region,
                           public record::ObservedRegion,
                           public store::Holder,
                           public std::enable_shared_from_this<ReplayRegion> {
 public:
  ReplayRegion(std::shared_ptr<store::Residency> residency, tape::OpId first, std::shared_ptr<ReplayRegion> parent,
               RegionOptions options);
  ~ReplayRegion() override;

  bool replays_random_ops() const override { return options_.preserve_rng_state; }
  std::shared_ptr<record::Saved> save(tape::ValueId value, const at::Tensor& tensor) override;
  void enter(tape::ValueId value, const std::shared_ptr<record::Saved>& saved) override;
  bool has_entered(tape::ValueId value) const override { return entries_.count(value) > 0; }
  void overwritten(tape::ValueId before, tape::ValueId after, const tape::Geometry& part, bool has_history) override;
  void opened() override;
  void closed() override;

  void for_each_needed(bool dropped_only, const std::function<void(tape::ValueId)>& visit) const override;

  std::string label() const override { return path_.empty() ? "checkpoint" : path_; }
  bool is_checkpoint() const override { return options_.is_checkpoint; }
  record::RegionFigures figures() const override;

  /// From here on the value is recomputed, whatever the policy says; what was kept of it is let go.
  void mark(tape::ValueId value);

  size_t num_handles() const { return num_handles_; }
  /// What a handle takes.
  static const int64_t kHandleBytes;
  /// Bytes of values that autograd has saved here and that are not in memory. Takes time for each handle.
  int64_t missing_bytes() const;
  /// A value that is there, in a smaller form; null if none serves.
  std::shared_ptr<const store::Resting> rest(tape::ValueId value);
  /// Brings values back ahead of time.
  void bring_back(const std::vector<tape::ValueId>& targets);
  const std::shared_ptr<Governor>& governor() const { return options_.governor; }

  store::Residency& residency() const { return *residency_; }
  const tape::Tape& tape() const { return tape_; }
  const std::string& path() const { return path_; }
  DeterminismCheck check() const { return options_.check; }
  bool together() const { return together_; }
  ScopeStats stats() const;
  void count_marked_constant();

 private:
  friend class ReplayHandle;

  /// The bytes of the handle's value: resident, or brought back now.
  c10::Storage fetch(const ReplayHandle& handle);
  void bring_back_group();
  /// Whether bringing values back may run random ops; those of its group, or of one of a region around it whose values
  /// enter here, have tapes of their own.
  bool may_draw_again() const {
    return options_.group != nullptr || tape_.has_drawn() || (parent_ != nullptr && parent_->may_draw_again());
  }
  bool is_kept(tape::ValueId value) const;     // by a handle
  bool is_missing(tape::ValueId value) const;  // dropped, and not to be found anywhere
  std::vector<tape::ValueId> missing() const;
  std::vector<tape::ValueId> saved_values() const;
  void count_saved(tape::ValueId value, int64_t bytes, bool kept);
  ValueInfo info_of(tape::ValueId value) const;
  Action action_on(tape::ValueId value) const;
  std::shared_ptr<const store::Resting> resting(tape::ValueId value, const at::Tensor& tensor,
                                                const store::Candidate* candidate);

  std::shared_ptr<store::Residency> residency_;
  const tape::Tape& tape_;
  std::shared_ptr<ReplayRegion> parent_;
  RegionOptions options_;
  size_t first_storage_ = 0;        // that the region made
  std::optional<tape::OpId> last_;  // the first op after it, once it is closed
  std::string path_;
  bool together_;
  std::unordered_map<tape::ValueId, std::shared_ptr<record::Saved>> entries_;
  store::HoldingList handles_;
  size_t num_handles_ = 0;
  ska::flat_hash_set<tape::ValueId> counted_;  // what became of a value is counted once
  std::set<tape::ValueId> marked_;
  ScopeStats stats_;
};

}  // namespace encore::region
