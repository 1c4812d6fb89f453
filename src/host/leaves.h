// Which leaves a backward adds to.
#pragma once

#include <unordered_set>

#include <torch/csrc/autograd/function.h>

namespace encore::host {

/// Tells the open regions of this thread, if they want to know, which leaves a backward from `roots` may add to.
void tell_leaves(const torch::autograd::edge_list& roots);

/// The same for the graph task whose nodes are running on this thread.
void tell_leaves_of_task(const std::unordered_set<torch::autograd::Node*>& nodes);

}  // namespace encore::host
