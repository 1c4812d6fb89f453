// The state before a function's call, put back: while it is called again, or after a call that must not count.
#pragma once

#include <map>
#include <mutex>
#include <set>

#include "record/recorder.h"
#include "store/residency.h"
#include "tape/random.h"

namespace encore::region {

// Each takes the tape's lock for its own moments only, not while the function runs.

/// Tensors from before the call that the function reads or overwrites hold the bytes that they held when it was first
/// called, while it is called again. Throws ChangedError where those bytes are gone.
class StoragesThen {
 public:
  /// The function's first call was ops `first` .. `last` - 1 of `tape`.
  StoragesThen(const store::Residency& residency, tape::OpId first, tape::OpId last);
  ~StoragesThen() { swap_back(); }
  StoragesThen(const StoragesThen&) = delete;
  StoragesThen& operator=(const StoragesThen&) = delete;

  /// What stands for the storage during the call; empty if its bytes are the same as then.
  c10::Storage find(const c10::StorageImpl* storage) const;

 private:
  struct Swap {
    int32_t index;
    const c10::StorageImpl* storage;
    c10::Storage live;
    c10::Storage now;
    uint32_t version;  // of its counter, if that is enabled
  };

  void use(tape::ValueId id, tape::OpId first);
  void swap_back();

  const store::Residency& residency_;
  const tape::Tape& tape_;
  std::vector<Swap> swaps_;
  std::set<int32_t> seen_;
};

/// Gradients that the function adds to: as they were before it did, while it is called again.
class GradientsThen {
 public:
  /// Leaves, each with its gradient before the first call.
  using Gradients = std::vector<std::pair<at::Tensor, at::Tensor>>;

  explicit GradientsThen(const Gradients& gradients);
  ~GradientsThen();
  GradientsThen(const GradientsThen&) = delete;
  GradientsThen& operator=(const GradientsThen&) = delete;

 private:
  const Gradients& gradients_;
  std::vector<at::Tensor> now_;
};

/// Generators as they were when the function first drew from them; as they are now again afterwards.
class RandomThen {
 public:
  /// `start` is the default generator's state before the call.
  RandomThen(const tape::Tape& tape, tape::OpId first, tape::OpId last, const tape::RandomState& start);

 private:
  tape::GeneratorsThen then_;
};

/// A call that must leave no trace, while this lives. Afterwards tensors from outside hold the bytes that they held
/// before, and generators that ops drew from are as they were. Versions are left alone: a graph may have saved one.
class UndoneCall {
 public:
  /// `buffers` are put back even if they are written to through raw pointers, which no tape sees.
  explicit UndoneCall(const std::vector<at::Tensor>& buffers);
  ~UndoneCall();
  UndoneCall(const UndoneCall&) = delete;
  UndoneCall& operator=(const UndoneCall&) = delete;

  /// Bytes of the copies made meanwhile, to be put back.
  int64_t copied_bytes() const;
  /// Rethrows what went wrong while recording.
  void rethrow_failure() const { recorder_->rethrow_failure(); }

 private:
  void tell_outer(const std::set<const c10::StorageImpl*>& put_back);

  std::shared_ptr<store::Residency> outer_;  // of the recorder that is set aside
  std::set<int32_t> changed_;                // storages of it that had been changed unseen before
  record::Recorder::Aside aside_;
  std::shared_ptr<store::Residency> residency_;
  std::shared_ptr<record::Recorder> recorder_;
  tape::RandomState random_;
  std::vector<std::pair<c10::Storage, c10::Storage>> buffers_;  // each with its bytes before
};

/// The tensor's bytes with a version counter of their own, and in place of the tensor's history a stand-in: what is no
/// leaf may be changed in place as the tensor could.
at::Tensor stand_in(const at::Tensor& tensor, bool requires_grad, bool is_leaf);

/// An argument that is a view of another one, or of the same tensor as another one: a change in place of the one gives
/// the other a history.
struct ViewThen {
  const void* base = nullptr;  // stands for the tensor that it is a view of; null if it is none or the only one
  tape::Geometry geometry;     // of that
  bool requires_grad = false;
  bool is_leaf = false;

  /// By argument.
  static std::vector<ViewThen> of(const std::vector<at::Tensor>& arguments);
  /// What stands for `base` in a call's arguments: an entry of `bases`, made here where there is none.
  at::Tensor over(const at::Tensor& view, std::map<const void*, at::Tensor>& bases) const;
};

}  // namespace encore::region
