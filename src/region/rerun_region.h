// A region whose values are brought back by calling its function again.
#pragma once

#include <atomic>

#include <encore/recompute.h>

#include "record/recorder.h"
#include "region/call_path.h"
#include "region/state_then.h"
#include "tape/random.h"

namespace encore::region {

struct RerunOptions {
  std::string name;
  bool preserve_rng_state = true;
  DeterminismCheck check = DeterminismCheck::kMetadata;
  bool early_stop = true;  // see CheckpointOptions
};

/// The call's memory: what to call, in which state, and which of the tensors it saves are still needed.
class RerunFrame : public record::ObservedRegion,
                   public store::Holder,
                   public std::enable_shared_from_this<RerunFrame> {
 public:
  /// Calls the function with other tensors in place of its inputs.
  using Again = std::function<void(const std::vector<at::Tensor>&)>;

  RerunFrame(RerunOptions options, const std::vector<at::Tensor>& inputs, Again again);

  ~RerunFrame() override;

  /// Region `first`.. of the tape is the function's call; ends when the function has returned.
  void begin(std::shared_ptr<store::Residency> residency, tape::OpId first);
  void end();

  /// The function saves its next tensor while `op` runs: a slot for it, when it is first called.
  std::shared_ptr<record::Saved> add_slot(const at::Tensor& tensor, const tape::OpInfo* op);
  /// The function adds to the leaf's gradient, when it is first called.
  void note_gradient(const at::Tensor& leaf);
  /// The same as add_slot, when it is called again. Throws to stop the call once nothing more is needed.
  void fill_next_slot(const at::Tensor& tensor, const tape::OpInfo* op);
  /// Saving went wrong: the interpreter of TorchScript makes errors of its own of what passes through it.
  void note_mismatch(std::exception_ptr mismatch) { mismatch_ = std::move(mismatch); }
  /// The function changed a tensor with a history in place, when it is first called.
  void note_rewritten(tape::ValueId before);
  /// The function changed bytes without autograd noticing: what comes back must have been changed, too.
  void run_whole() { options_.early_stop = false; }
  void for_each_needed(bool dropped_only, const std::function<void(tape::ValueId)>& visit) const override;

  std::string label() const override { return options_.name.empty() ? "checkpoint" : options_.name; }
  bool is_checkpoint() const override { return true; }
  record::RegionFigures figures() const override;

 private:
  class SlotHandle;
  /// Unwinds the function once all is there. Not a std::exception: user code that catches those lets it pass.
  struct Stop {};
  struct Slot {
    tape::Geometry geometry;
    const tape::OpInfo* op = nullptr;  // that ran when the tensor was saved
    tape::OpId at = 0;                 // how many ops of the call had ended
    std::string made_by;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage{c10::intrusive_ptr<c10::StorageImpl>()};
    int64_t nbytes = 0;
    std::optional<uint64_t> hash;
    // Written under the frame's lock, read under the tape's, too.
    std::unique_ptr<std::atomic<int32_t>> handles = std::make_unique<std::atomic<int32_t>>(0);
    std::shared_ptr<record::Saved> first;  // until the function has returned: it may run a backward of its own
    std::shared_ptr<record::Saved> again;  // from another call, until backward asks for it
    // Of the first call's tensor: LibTorch 1.13 gives it to what comes back, newer versions leave that its own.
    c10::VariableVersion counter{c10::VariableVersion::DISABLED};
    uint32_t version = 0;        // when `again` came
    uint32_t version_saved = 0;  // when autograd saved the tensor

    uint32_t version_now() const { return counter.enabled() ? counter.current_version() : 0; }
  };
  struct Input {
    std::shared_ptr<record::Saved> saved;
    at::Tensor tensor;  // until the function has returned, where nothing else could bring it back
    c10::weak_intrusive_ptr<c10::StorageImpl> storage{c10::intrusive_ptr<c10::StorageImpl>()};
    tape::Geometry geometry;
    ViewThen view;
    const void* identity = nullptr;  // stands for the tensor
    size_t same_as = 0;              // the first input that is this very tensor
    bool requires_grad = false;
    bool is_leaf = false;
  };

  at::Tensor get(size_t slot);
  static at::Tensor as_autograd_has_it(const Slot& slot);
  void let_go();  // of what another call brought back
  void rerun();
  std::vector<at::Tensor> inputs_again(const StoragesThen& storages) const;
  bool may_stop(const tape::OpInfo* op) const;
  void check_slot(const Slot& slot, const at::Tensor& tensor, const tape::OpInfo* op) const;
  std::string who() const;

  RerunOptions options_;
  std::shared_ptr<const std::string> name_;  // of the options, for messages
  Again again_;
  std::vector<Input> inputs_;
  std::vector<Slot> slots_;
  GradientsThen::Gradients gradients_;  // that the function adds to
  std::shared_ptr<store::Residency> residency_;
  const tape::Tape& tape() const { return residency_->tape(); }
  tape::OpId first_ = 0;
  tape::OpId last_ = 0;
  tape::RandomState random_;
  bool autocast_;
  at::ScalarType autocast_dtype_;
  tape::World world_;
  c10::impl::LocalDispatchKeySet dispatch_keys_;
  mutable RecursiveMutex mutex_;
  std::string rewritten_;  // a captured tensor whose history the function changed
  size_t next_slot_ = 0;   // while the function is called again
  size_t missing_ = 0;
  std::exception_ptr mismatch_;
};

class RerunRegion final : public record::Region {
 public:
  RerunRegion(tape::OpId first, std::shared_ptr<RerunFrame> frame, bool again)
      : Region(first, nullptr), frame_(std::move(frame)), again_(again) {}

  bool is_opaque() const override { return true; }
  std::shared_ptr<record::Saved> save_next(const at::Tensor& tensor, const tape::OpInfo* op) override;
  std::shared_ptr<record::Saved> save(tape::ValueId value, const at::Tensor& tensor) override;
  void enter(tape::ValueId, const std::shared_ptr<record::Saved>&) override {}
  bool has_entered(tape::ValueId) const override { return true; }
  void leaf_comes(const at::Tensor& leaf) override;
  bool wants_leaves() const override { return true; }
  void overwritten(tape::ValueId before, tape::ValueId after, const tape::Geometry& part, bool has_history) override;
  void overwritten_unseen() override;
  void closed() override;

 private:
  std::shared_ptr<RerunFrame> frame_;
  bool again_;
};

}  // namespace encore::region
