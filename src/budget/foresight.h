// What an optimizer's first step will make, foreseen from the first parameter that it comes to.
#pragma once

#include "budget/undo.h"

namespace encore::budget {

/// An optimizer makes the same tensors for each of its parameters, and makes those of the first one before it writes to
/// it: a refusal there leaves model and optimizer as they were, a later one the model half stepped. AdamW lets its
/// first parameter decay before.
///
/// Seen are ops under no_grad after a backward that make something like a parameter or its gradient (`zeros_like`,
/// `clone`): what they make for one parameter of the step is expected for all of them. Not seen is an optimizer that
/// makes its state otherwise.
class Foresight {
 public:
  /// What an optimizer's ops need besides for numbers that LibTorch wraps in tensors.
  static constexpr int64_t kScalarsBytes = 64;

  explicit Foresight(const Undo& undo) : undo_(undo) {}

  /// Between two events of the step; `in_backward` if the one before was a node of a backward.
  void between_events(int64_t live_bytes, bool in_backward);
  /// Of an event after a backward, temporaries included.
  void peaked(int64_t live_bytes) { peak_ = std::max(peak_, live_bytes); }
  /// What will be made after the op that starts, if it belongs to an optimizer that makes the state of its first
  /// parameter; else 0.
  int64_t bytes_to_come(const tape::Tape& tape, const tape::PendingOp& op);
  /// What the optimizer makes for all parameters, as far as that is known.
  int64_t state_bytes() const { return state_bytes_; }
  /// What the step will hold at most from here to its end, as far as it can be foreseen while an op asks for `nbytes`.
  int64_t needed_bytes(int64_t live_bytes, int64_t nbytes) const;

 private:
  void look_at_parameters(const tape::Tape& tape);
  void find_parameter(const tape::Tape& tape, const tape::PendingOp& op);

  const Undo& undo_;
  bool after_backward_ = false;
  std::vector<int64_t>
      parameters_;  // bytes of each, in the order in which forward came to them: an optimizer's, mostly
  std::unordered_map<const c10::StorageImpl*, size_t>
      of_storage_;      // the parameter of which it is the bytes or gradient
  size_t current_ = 0;  // parameter that an op has come to
  int64_t zeros_ = 0;   // made for it
  int64_t clones_ = 0;
  int64_t state_bytes_ = 0;
  int64_t live_after_backward_ = 0;
  int64_t live_after_write_ = 0;       // to a parameter, when its temporaries were gone
  int64_t written_bytes_ = 0;          // of parameters by then
  int64_t peak_ = 0;                   // since the last write
  int64_t temporaries_bytes_ = 0;      // of an optimizer's ops, at most
  int64_t largest_written_bytes_ = 0;  // parameter
};

}  // namespace encore::budget
