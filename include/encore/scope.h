// Records what happens in a scope, under a policy.
//
// The first scope (or checkpoint) of a process takes LibTorch's autograd engine slot, for the rest of the process: that
// is where LibTorch asks how to save a tensor. Where somebody else holds it SlotError is thrown; in a Python process
// the module `encore` must have been imported.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include <encore/export.h>
#include <encore/policy.h>
#include <encore/recompute.h>

namespace encore {

struct CheckpointConfig;  // <encore/segments.h>

/// While it lives, the ops of this thread are recorded, and what autograd saves is kept or recomputed by the policy.
/// Scopes nest. A scope is ended by the thread that began it, innermost first; backward may run inside it, after it, or
/// on another thread. Dropping it without backward is fine.
class ENCORE_API Scope {
 public:
  /// Throws SlotError if the engine slot is taken. `name` shows in paths and messages.
  explicit Scope(Policy policy = keep_all(), std::string name = "");
  /// Executes a segment plan: see <encore/segments.h>. Throws InvalidArgument for segments that overlap or are
  /// reversed; end() does for segments that were not reached.
  explicit Scope(const CheckpointConfig& config, std::string name = "");
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// Ends the scope now. Throws ScopeError if a scope inside it is still open, if it was ended already, or if another
  /// thread began it. The destructor ends it whatever the case, and with it the scopes inside.
  void end();

  ScopeStats stats() const;
  /// The tape as text: one line an op.
  std::string dump() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Marks one value for recomputation, whatever the scope's policy says, and returns it. What comes from outside the
/// scope can't be recomputed: it stays, and the scope's stats say so. Throws ScopeError outside a scope.
ENCORE_API at::Tensor checkpoint(const at::Tensor& tensor);

/// checkpoint(tensor) if its storage has strictly more than `threshold_bytes`.
ENCORE_API at::Tensor adaptive_checkpoint(const at::Tensor& tensor, int64_t threshold_bytes);

}  // namespace encore
