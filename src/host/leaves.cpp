// From the roots of a backward, or the nodes of its graph task, to the leaves.
#include "host/leaves.h"

#include <torch/csrc/autograd/engine.h>

#include "record/leaves.h"
#include "record/recorder.h"

namespace encore::host {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;

namespace {

/// Null if nobody does.
record::Recorder* who_wants_leaves() {
  record::Recorder* recorder = record::Recorder::current();
  return recorder != nullptr && !record::Recorder::is_paused() && recorder->wants_leaves() ? recorder : nullptr;
}

}  // namespace

void tell_leaves(const torch::autograd::edge_list& roots) {
  record::Recorder* recorder = who_wants_leaves();
  if (recorder == nullptr) {
    return;
  }
  record::for_each_leaf(roots,
                        [&](AccumulateGrad& leaf) { recorder->tell(&record::Subscriber::leaf_comes, leaf.variable); });
}

void tell_leaves_of_task(const std::unordered_set<Node*>& nodes) {
  record::Recorder* recorder = who_wants_leaves();
  if (recorder == nullptr) {
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
    recorder->tell(&record::Subscriber::leaf_comes, leaf->variable);
  }
}

}  // namespace encore::host
