// One tensor that autograd saved in a ReplayRegion.
#pragma once

#include "checkpoint/replay_region.h"

namespace encore {

/// The tensor itself, or just how to find it. Callers hold the tape's lock, but for get() and the destructor.
class ReplayHandle final : public record::Saved {
 public:
  ReplayHandle(std::shared_ptr<ReplayRegion> region, tape::ValueId value, const at::Tensor& tensor, bool keep);
  ~ReplayHandle() override;
  ReplayHandle(const ReplayHandle&) = delete;
  ReplayHandle& operator=(const ReplayHandle&) = delete;

  at::Tensor get() override;
  void needs_whole_storage() override { whole_ = true; }

  /// An op overwrote the value through a tensor with another version counter; see tape::Holder. Takes itself off its
  /// region's list if it is saved anew.
  void overwritten_unseen(const tape::Holder::SaveAnew& save_anew);

  tape::ValueId value() const { return value_; }
  bool is_dropped() const { return !kept_; }
  void drop();
  /// Holds the value in this form, which may be null, instead of the tensor.
  void hold_resting(std::shared_ptr<const tape::Resting> resting) { resting_ = std::move(resting); }

  /// Whether the tensor is the same in a later version of its storage, of which `part` was overwritten.
  bool survives(const tape::Geometry& part) const { return !whole_ && !claimed_ && geometry_->is_apart_from(part); }
  void move_to(tape::ValueId value);

  /// The value came back and is retained, in this epoch of the tape, until this handle has had it.
  void claim(int64_t epoch) {
    claimed_ = true;
    epoch_ = epoch;
  }

 private:
  friend class HandleTable;

  void settle();
  void sign_off();
  bool is_at_hand() const;
  bool is_kept_as_saved() const;
  at::Tensor over(const c10::Storage& storage) const;
  at::Tensor as_autograd_has_it() const;
  void verify(const at::Tensor& tensor) const;

  std::shared_ptr<ReplayRegion> region_;
  tape::ValueId value_;
  const tape::Geometry* geometry_;  // the tape's
  int64_t version_;
  c10::VariableVersion counter_;         // of the tensor that was saved
  std::shared_ptr<record::Saved> anew_;  // what stands in its place, since the value was overwritten unseen
  std::optional<uint64_t> hash_;
  c10::Storage kept_;
  std::shared_ptr<const tape::Resting> resting_;
  bool whole_ = false;
  bool claimed_ = false;
  int64_t epoch_ = 0;
  HandleTable::Stake* stake_ = nullptr;
  HandleTable::Links of_value_;
  HandleTable::Links of_region_;
};

template <class Visit>
void HandleTable::for_each(const Visit& visit) const {
  for (const ReplayHandle* handle = first_; handle != nullptr; handle = handle->of_region_.next) {
    visit(*handle);
  }
}

}  // namespace encore
