// The walk over an autograd graph to its leaves.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "tape/torch.h"

namespace encore::record {

/// Calls visit for each leaf's node that `roots` depend on, once each. Without recursion: graphs are deep.
void for_each_leaf(const torch::autograd::edge_list& roots,
                   const std::function<void(torch::autograd::AccumulateGrad&)>& visit);
void for_each_leaf(const std::vector<at::Tensor>& roots,
                   const std::function<void(torch::autograd::AccumulateGrad&)>& visit);

}  // namespace encore::record
