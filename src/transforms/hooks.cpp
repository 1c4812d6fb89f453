// Hooks on the graph's leaves, for the time of one backward.
#include <encore/hooks.h>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <encore/error.h>

#include "record/leaves.h"

namespace encore {
namespace {

using torch::autograd::AccumulateGrad;

/// Runs after the node has added to the leaf's gradient. The engine runs the node once, when all contributions are in.
class AfterLeaf final : public torch::autograd::FunctionPostHook {
 public:
  AfterLeaf(BackwardHook& hook, at::Tensor leaf) : hook_(hook), leaf_(std::move(leaf)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    if (const at::Tensor grad = leaf_.grad(); grad.defined()) {
      hook_.on_leaf_grad_ready(leaf_, grad);
    }
    return outputs;
  }

 private:
  BackwardHook& hook_;
  at::Tensor leaf_;
};

/// The hooks of one backward, taken off again whatever happens.
class LeafHooks {
 public:
  LeafHooks(const at::Tensor& loss, BackwardHook& hook) {
    record::for_each_leaf({loss}, [&](AccumulateGrad& node) {
      // The edge keeps the node, which its leaf holds only weakly, until its hook is off.
      auto edge = torch::autograd::impl::gradient_edge(node.variable);
      const auto key = node.add_post_hook(std::make_unique<AfterLeaf>(hook, node.variable));
      hooks_.emplace_back(std::move(edge), key);
    });
  }
  ~LeafHooks() {
    for (const auto& [edge, key] : hooks_) {
      edge.function->del_post_hook(key);
    }
  }
  LeafHooks(const LeafHooks&) = delete;
  LeafHooks& operator=(const LeafHooks&) = delete;

  bool empty() const { return hooks_.empty(); }

 private:
  std::vector<std::pair<torch::autograd::Edge, uintptr_t>> hooks_;
};

class FunctionHook final : public BackwardHook {
 public:
  using Function = std::function<void(const at::Tensor&, const at::Tensor&)>;
  explicit FunctionHook(const Function& function) : function_(function) {}
  void on_leaf_grad_ready(const at::Tensor& leaf, const at::Tensor& grad) override { function_(leaf, grad); }

 private:
  const Function& function_;
};

}  // namespace

BackwardHook::~BackwardHook() = default;

void backward_with_hooks(const at::Tensor& loss, BackwardHook& hook, const BackwardOptions& options) {
  if (!loss.defined()) {
    throw InvalidArgument("backward_with_hooks: the loss is an undefined tensor");
  }
  const LeafHooks hooks(loss, hook);
  if (hooks.empty()) {
    throw InvalidArgument("backward_with_hooks: the loss depends on no tensor that requires a gradient");
  }
  torch::autograd::backward({loss}, {options.gradient}, options.retain_graph || options.create_graph,
                            options.create_graph);
}

void backward_with_hooks(const at::Tensor& loss, const std::function<void(const at::Tensor&, const at::Tensor&)>& hook,
                         const BackwardOptions& options) {
  if (!hook) {
    throw InvalidArgument("backward_with_hooks: the hook is empty");
  }
  FunctionHook function(hook);
  backward_with_hooks(loss, function, options);
}

}  // namespace encore
