// Backward that tells when each leaf's gradient is complete.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include <encore/export.h>

namespace encore {

/// Told of gradients while backward goes on.
class ENCORE_API BackwardHook {
 public:
  virtual ~BackwardHook();

  /// Backward has added the last contribution to `leaf`'s gradient: `grad` is leaf.grad(). Called once for each leaf of
  /// a backward, in the order in which gradients become complete, on the thread that backward runs that leaf on. The
  /// hook may use the gradient up: change the leaf, and free the gradient by `leaf.mutable_grad().reset()`. An
  /// exception ends backward and arrives at its caller.
  virtual void on_leaf_grad_ready(const at::Tensor& leaf, const at::Tensor& grad) = 0;
};

struct BackwardOptions {
  at::Tensor gradient;  ///< of the loss; may be undefined for a scalar
  bool retain_graph = false;
  bool create_graph = false;
};

/// loss.backward(), with the hook called for each leaf that the loss depends on, those inside checkpoints included.
/// Throws InvalidArgument if the loss depends on none.
ENCORE_API void backward_with_hooks(const at::Tensor& loss, BackwardHook& hook, const BackwardOptions& options = {});

/// The same with a function.
ENCORE_API void backward_with_hooks(const at::Tensor& loss,
                                    const std::function<void(const at::Tensor& leaf, const at::Tensor& grad)>& hook,
                                    const BackwardOptions& options = {});

}  // namespace encore
