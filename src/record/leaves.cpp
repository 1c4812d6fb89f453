// From the roots of a backward to the leaves.
#include "record/leaves.h"

#include <c10/util/flat_hash_map.h>
#include <torch/csrc/autograd/variable.h>

namespace encore::record {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::Node;

void for_each_leaf(const torch::autograd::edge_list& roots, const std::function<void(AccumulateGrad&)>& visit) {
  std::vector<Node*> open;
  ska::flat_hash_set<Node*> seen;
  const auto add = [&](const Edge& edge) {
    if (edge.is_valid() && seen.insert(edge.function.get()).second) {
      open.push_back(edge.function.get());
    }
  };
  std::for_each(roots.begin(), roots.end(), add);
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    std::for_each(node->next_edges().begin(), node->next_edges().end(), add);
    // What goes on is no leaf, and need not be asked for its type.
    if (auto* leaf = node->next_edges().empty() ? dynamic_cast<AccumulateGrad*>(node) : nullptr) {
      visit(*leaf);
    }
  }
}

void for_each_leaf(const std::vector<at::Tensor>& roots, const std::function<void(AccumulateGrad&)>& visit) {
  // A leaf's node is held by the graph only: a root that is a leaf itself may have none yet.
  torch::autograd::edge_list edges;
  for (const at::Tensor& root : roots) {
    if (root.defined() && root.requires_grad()) {
      edges.push_back(torch::autograd::impl::gradient_edge(root));
    }
  }
  for_each_leaf(edges, visit);
}

}  // namespace encore::record
