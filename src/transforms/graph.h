// Looks for the leaves of an autograd graph.
#pragma once

#include "tape/torch.h"

namespace torch::autograd {
struct AccumulateGrad;
}

namespace encore::transforms {

/// Calls visit for each leaf's node that `roots` depend on, once each. Without recursion: graphs are deep.
void for_each_leaf(const std::vector<at::Tensor>& roots,
                   const std::function<void(torch::autograd::AccumulateGrad&)>& visit);

}  // namespace encore::transforms
