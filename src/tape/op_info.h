// What the tape must know about an operator, read once from its schema and kernels.
#pragma once

#include <string>
#include <vector>

#include "tape/torch.h"

namespace encore::tape {

struct OpInfo {
  explicit OpInfo(c10::OperatorHandle op) : handle(std::move(op)) {}

  c10::OperatorHandle handle;
  std::string name;  // "aten::mul.Tensor"
  size_t num_args = 0;
  size_t num_returns = 0;

  bool composite = false;  // made of other ops that autograd sees: looked through
  bool autocasts = false;  // has an autocast kernel that casts and calls again: looked through while autocast is on
  bool replayable = true;  // has a kernel below autograd that can run it again
  bool is_clone = false;
  bool is_detach = false;        // detach_, which changes nothing but a tensor's place in the graph of autograd
  bool factory = false;          // its values depend on no tensor's values
  bool uninitialised = false;    // leaves its result's bytes unset (empty and its kin)
  bool overwrites = false;       // sets every element of what it writes, whatever was there
  bool metadata_only = false;    // an in-place view: changes how a tensor lies, not its bytes
  bool moves_storage = false;    // gives a tensor other bytes to live in (resize_, set_)
  bool may_draw = false;         // may draw random numbers
  bool undeclared_draw = false;  // nobody vouches that its schema would say so
  bool bumps_versions = false;   // the version of what it writes goes up by one
  bool is_view = false;          // its results are its argument's bytes, of which it reads none
  bool returns_other = false;    // gives something that is not one of the arguments that it writes
  uint64_t name_hash = 0;        // the same in every process
  std::vector<size_t> writes;    // arguments that the schema says are written

  /// Arguments written although the schema may not say so: batch norm's running statistics, rrelu's noise.
  std::vector<size_t> state_writes;
  bool state_overwritten = false;      // noise is set anew; statistics are updated
  std::optional<size_t> training_arg;  // state is written only when this argument is true
  bool leaves_workspace = false;       // see is_workspace()
  int64_t workspace_dim = -1;          // by which it is known among the results; -1: it is the one of bytes

  /// True for a result that only the op's own backward understands and of which not every byte is set: running the op
  /// again gives as good a one, but not the same bits.
  bool is_workspace(const at::Tensor& result) const {
    return leaves_workspace && (workspace_dim < 0 ? result.scalar_type() == at::kByte : result.dim() == workspace_dim);
  }

  /// The operator of this recorded call, or null for what is no dispatched operator.
  static const OpInfo* find(const at::RecordFunction& call);
  /// The same for an operator, not remembered.
  static std::unique_ptr<OpInfo> of(const c10::OperatorHandle& handle);
};

}  // namespace encore::tape
