// One tensor that autograd saved in a ReplayRegion.
#pragma once

#include "region/replay_region.h"

namespace encore::region {

/// The tensor itself, or just how to find it. Callers hold the tape's lock, but for get() and the destructor.
class ReplayHandle final : public record::Saved, public store::Holding {
 public:
  ReplayHandle(std::shared_ptr<ReplayRegion> region, tape::ValueId value, const at::Tensor& tensor, bool keep);
  ~ReplayHandle() override;
  ReplayHandle(const ReplayHandle&) = delete;
  ReplayHandle& operator=(const ReplayHandle&) = delete;

  at::Tensor get() override;
  void needs_whole_storage() override { whole_ = true; }

  /// An op overwrote the value through a tensor with another version counter. Takes itself off the lists if it is saved
  /// anew.
  void overwritten_unseen(const SaveAnew& save_anew) override;

  /// Whether the tensor is the same in a later version of its storage, of which `part` was overwritten.
  bool survives(const tape::Geometry& part) const { return !whole_ && !has_claim() && geometry_->is_apart_from(part); }

 private:
  store::Residency& residency() const { return region_->residency(); }
  void leave();
  void tell_asked() const;
  bool is_at_hand() const;
  bool is_kept_as_saved() const;
  at::Tensor over(const c10::Storage& storage) const;
  at::Tensor as_autograd_has_it() const;
  void verify(const at::Tensor& tensor) const;

  std::shared_ptr<ReplayRegion> region_;
  const tape::Geometry* geometry_;  // the tape's
  int64_t version_;
  c10::VariableVersion counter_;         // of the tensor that was saved
  std::shared_ptr<record::Saved> anew_;  // what stands in its place, since the value was overwritten unseen
  std::optional<uint64_t> hash_;
  bool whole_ = false;
};

}  // namespace encore::region
