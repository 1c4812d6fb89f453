// Training on many ranks, each within its budget. By itself it is a group of one; scripts/launch -n 2 starts two.
#include <iostream>

#include <torch/torch.h>

#include <encore/dist.h>

int main() {
  torch::nn::Sequential model(torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Linear(256, 10));

  const auto group = encore::RankGroup::from_environment();
  encore::DataParallel parallel(*model, group);  // from here on all have rank 0's parameters
  encore::ShardedOptimizer optimizer(parallel, [](std::vector<at::Tensor> parameter) {
    return std::make_unique<torch::optim::Adam>(parameter, torch::optim::AdamOptions(1e-3));
  });
  encore::MemoryBudget budget("64MiB");

  torch::manual_seed(group.rank());
  for (int i = 0; i < 20; ++i) {
    const auto step = parallel.step(budget);  // begins on all ranks or on none
    const auto loss = model->forward(torch::randn({128, 64})).square().mean();
    loss.backward();   // gradients are summed over the ranks meanwhile
    optimizer.step();  // each rank updates its part and sends it
  }
  const auto report = parallel.report();
  if (group.rank() == 0) {
    std::cout << report.text();
  }
  return 0;
}
