// A walk over graph nodes.
#include "transforms/graph.h"

#include <unordered_set>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

namespace encore::transforms {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;

void for_each_leaf(const std::vector<at::Tensor>& roots, const std::function<void(AccumulateGrad&)>& visit) {
  std::vector<Node*> open;
  std::unordered_set<Node*> seen;
  const auto add = [&](Node* node) {
    if (node != nullptr && seen.insert(node).second) {
      open.push_back(node);
    }
  };
  // A leaf's node is held by the graph only: a root that is a leaf itself may have none yet.
  std::vector<torch::autograd::Edge> edges;
  for (const at::Tensor& root : roots) {
    if (root.defined() && root.requires_grad()) {
      edges.push_back(torch::autograd::impl::gradient_edge(root));
      add(edges.back().function.get());
    }
  }
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (auto* leaf = dynamic_cast<AccumulateGrad*>(node)) {
      visit(*leaf);
    }
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      add(edge.function.get());
    }
  }
}

}  // namespace encore::transforms
