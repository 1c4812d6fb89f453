// What the tape must know about an operator, read once from its schema and kernels.
#pragma once

#include <string>
#include <vector>

#include "tape/torch.h"

namespace encore::tape {

struct OpInfo {
  c10::OperatorHandle handle;
  std::string name;  // "aten::mul.Tensor"
  size_t num_args = 0;
  size_t num_returns = 0;

  bool composite = false;      // made of other ops that autograd sees: looked through
  bool autocasts = false;      // has an autocast kernel that casts and calls again: looked through while autocast is on
  bool replayable = true;      // has a kernel below autograd that can run it again
  bool factory = false;        // its values depend on no tensor's values
  bool uninitialised = false;  // leaves its result's bytes unset (empty and its kin)
  bool overwrites = false;     // sets every element of what it writes, whatever was there
  bool metadata_only = false;  // an in-place view: changes how a tensor lies, not its bytes
  bool moves_storage = false;  // gives a tensor other bytes to live in (resize_, set_)
  bool may_draw = false;       // may draw random numbers
  std::vector<size_t> writes;  // arguments that the schema says are written

  /// Arguments written although the schema may not say so: batch norm's running statistics, rrelu's noise.
  std::vector<size_t> state_writes;
  bool state_overwritten = false;      // noise is set anew; statistics are updated
  std::optional<size_t> training_arg;  // state is written only when this argument is true
  bool leaves_workspace = false;       // see is_workspace()

  /// True for a result that only the op's own backward understands and of which not every byte is set: running the op
  /// again gives as good a one, but not the same bits.
  bool is_workspace(const at::Tensor& result) const { return leaves_workspace && result.scalar_type() == at::kByte; }

  /// The operator of this recorded call, or null for what is no dispatched operator.
  static const OpInfo* find(const at::RecordFunction& call);
};

}  // namespace encore::tape
