// What a refused step puts back, so that a user who catches the refusal goes on from where the step began.
#pragma once

#include <mutex>
#include <set>

#include "tape/random.h"
#include "tape/tape.h"

namespace encore::budget {

/// Notes what a step changes before it changes it. Copies are small and outside the tensors' allocator.
///
/// Put back: generators that ops drew from; tensors from outside of at most kMostCopyBytes that recorded ops overwrote,
/// such as the statistics of batch norm; gradients that were not there before, or that the step itself had zeroed; what
/// an optimizer made as zeros. Not put back: parameters, once an optimizer has written to them; gradients to which an
/// earlier backward had added; larger tensors. What can't be put back is said.
///
/// After a rehearsal all that was there before is put back, with its version, at the price of as many bytes as it
/// writes to.
class Undo {
 public:
  static constexpr int64_t kMostCopyBytes = int64_t{1} << 20;
  static constexpr int64_t kMostCopiedBytes = int64_t{16} << 20;  // in a step

  explicit Undo(bool everything);

  /// An op is about to write. Under the tape's lock.
  void before_writes(const tape::Tape& tape, const tape::PendingOp& op);
  /// A backward is about to add to the leaf's gradient.
  void accumulates_into(const at::Tensor& leaf);
  /// The leaf's gradient, if it has one, is put back even if it is let go of. For rehearsals, before they begin.
  void keep_gradient(const at::Tensor& leaf);

  /// Bytes of leaves to whose gradients a backward has added, and of those of them that were written to since.
  int64_t parameter_bytes() const;
  /// Of those leaves that had no gradient before.
  int64_t new_gradient_bytes() const;
  int64_t largest_parameter_bytes() const;
  int64_t largest_unwritten_bytes() const;
  int64_t written_bytes() const;
  struct LeafBytes {
    const c10::StorageImpl* storage;
    const c10::StorageImpl* gradient;  // may be null
    int64_t nbytes;
  };
  /// Those leaves, in the order in which backward came to them; the pointers are not to be followed.
  std::vector<LeafBytes> leaves() const;
  /// Leaves that ops have written to since a backward added to their gradients.
  int64_t parameters_written() const;
  /// What a refusal has to say about it.
  std::string text() const;
  int64_t copied_bytes() const;

  /// Nothing if a parameter was written. The random and the tape's lock are held; no recorder is on. Returns gradients
  /// that went, to be let go of without locks: their graphs may hold functions that are called again.
  std::vector<at::Tensor> put_back(const tape::Tape& tape);

 private:
  struct Copy {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    std::vector<char> bytes;
    c10::VariableVersion counter;  // of a rehearsal; may be disabled
    uint32_t version = 0;
  };
  struct Kept {
    at::Tensor leaf;
    c10::weak_intrusive_ptr<c10::TensorImpl> gradient;
    tape::Geometry geometry;
    size_t copy;  // of its bytes
  };
  struct Leaf {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    const c10::StorageImpl* storage;
    const c10::TensorImpl* gradient;  // null: there was none
    int64_t version = 0;              // of the gradient
    bool zeroed = false;              // the gradient, by this step
  };

  void copy(const c10::Storage& storage, const c10::VariableVersion& counter);
  bool put_back_tensors(std::vector<at::Tensor>& gone);
  void put_back_kept_gradients(std::vector<at::Tensor>& gone);
  void put_back_generators(const tape::Tape& tape) const;
  void forget_copy(const c10::StorageImpl* storage);
  int64_t gradients_added_to() const;

  const bool everything_;     // that the step writes to
  mutable std::mutex mutex_;  // a refusal on another thread asks for text()
  tape::RandomState random_;
  std::vector<Copy> copies_;
  int64_t copied_bytes_ = 0;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> zeros_;  // of an optimizer, which it has begun to write to
  std::set<const c10::StorageImpl*> seen_;                        // overwritten
  std::set<const c10::StorageImpl*> zeroed_;                      // of them, by zero_
  std::vector<Leaf> leaves_;
  std::vector<Kept> kept_gradients_;
  std::set<const c10::TensorImpl*> known_leaves_;
  std::set<const c10::StorageImpl*> parameters_;
  int64_t parameter_bytes_ = 0;
  int64_t new_gradient_bytes_ = 0;
  int64_t largest_parameter_bytes_ = 0;
  int64_t written_bytes_ = 0;
  std::set<const c10::StorageImpl*> parameters_written_;
};

}  // namespace encore::budget
