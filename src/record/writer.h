// Writes ops on a tape, and tells the store what they do to the bytes that it knows.
#pragma once

#include "store/residency.h"

namespace encore::record {

/// The one who writes a tape. Callers hold the tape's lock.
class Writer {
 public:
  explicit Writer(store::Residency& residency) : residency_(residency), tape_(residency.tape_to_write()) {}

  /// Notes the arguments of an op that is about to run. Copies outside tensors that it will overwrite and that are
  /// needed. With `watched_from` the op will never be replayed, so its constants need not be kept, but every value from
  /// before op `watched_from` that it overwrites is copied, for its function to be called again on.
  void begin(tape::PendingOp& pending, const tape::OpInfo& info, c10::ArrayRef<const c10::IValue> args,
             tape::OpId watched_from = tape::kNone);

  /// The value is asked for as this tensor has it, counter and all.
  void watch(tape::ValueId value, const at::Tensor& tensor) { tape_.watch(value, tensor); }

  /// A call inside the op writes to the tensor.
  void nested_write(tape::PendingOp& pending, const at::Tensor& tensor) const;

  /// Notes its results; `outputs` are the last values of the boxed call's stack.
  tape::OpId end(tape::PendingOp& pending, c10::ArrayRef<const c10::IValue> outputs);

  /// The op threw: what it wrote to is unknown from here on.
  void abort(tape::PendingOp& pending);

  /// From here on a change of the bytes of results, from storage `first` on, that outlive their ops shows: nobody
  /// records who writes to them next.
  void fingerprint_results(size_t first);

 private:
  void note_arguments(tape::PendingOp& pending, const tape::OpInfo& info, c10::ArrayRef<const c10::IValue> args,
                      tape::OpId watched_from);
  tape::ValueId touch(const at::Tensor& tensor);
  tape::ValueId look_for_raw_writes(tape::PendingOp& pending, const at::Tensor& tensor, const tape::Geometry& part);
  tape::ValueId read(tape::PendingOp& pending, const at::Tensor& tensor, const tape::Geometry& part,
                     bool keep_constants);
  tape::ValueId read_by_view(const at::Tensor& tensor, bool keep_constants);
  tape::ValueId count_read(tape::ValueId id, const at::Tensor& tensor, bool borrowed, bool keep_constants);
  tape::ValueId add_changed_source(int32_t storage, const at::Tensor& tensor);
  tape::ValueId add_value(tape::Value value);
  tape::ValueId add_storage(const at::Tensor& tensor, tape::Value value, bool watched);
  void add_tensor_arg(tape::PendingOp& pending, const at::Tensor& tensor, size_t arg, int32_t index, bool updated);
  void before_write(tape::PendingOp& pending, const at::Tensor& tensor, bool state);
  std::optional<tape::Write> after_write(tape::OpId id, const tape::Op& op, const tape::PendingWrite& write);
  tape::Output add_output(tape::OpId id, const tape::Op& op, const at::Tensor& tensor);

  store::Residency& residency_;
  tape::Tape& tape_;
};

}  // namespace encore::record
