// From the roots of a backward, or the nodes of its graph task, to the leaves.
#include "host/leaves.h"

#include <c10/util/flat_hash_map.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "record/backward.h"

namespace encore::host {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;

void tell_leaves(const torch::autograd::edge_list& roots) {
  if (!record::wants_leaves()) {
    return;
  }
  std::vector<Node*> open;
  ska::flat_hash_set<Node*> seen;
  const auto visit = [&](const torch::autograd::Edge& edge) {
    if (edge.is_valid() && seen.insert(edge.function.get()).second) {
      open.push_back(edge.function.get());
    }
  };
  std::for_each(roots.begin(), roots.end(), visit);
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    std::for_each(node->next_edges().begin(), node->next_edges().end(), visit);
    if (const auto* leaf = dynamic_cast<AccumulateGrad*>(node)) {
      record::tell_leaf(leaf->variable);
    }
  }
}

void tell_leaves_of_task(const std::unordered_set<Node*>& nodes) {
  if (!record::wants_leaves()) {
    return;
  }
  const auto* chosen = torch::autograd::get_current_graph_task_exec_info();
  for (Node* node : nodes) {
    const auto* leaf = dynamic_cast<AccumulateGrad*>(node);
    if (leaf == nullptr) {
      continue;
    }
    // With inputs= and autograd.grad only some nodes run, and leaves that are asked for are captured, not added to.
    if (chosen != nullptr && !chosen->empty()) {
      const auto info = chosen->find(node);
      if (info == chosen->end() || !info->second.needed_) {
        continue;
      }
    }
    record::tell_leaf(leaf->variable);
  }
}

}  // namespace encore::host
