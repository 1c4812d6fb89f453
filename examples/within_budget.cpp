// The ten lines of the README: training inside a byte budget.
#include <torch/torch.h>

#include <iostream>

#include <encore/encore.h>

int main() {
  torch::manual_seed(1);
  torch::nn::Sequential model;
  for (int layer = 0; layer < 24; ++layer) {
    model->push_back(torch::nn::Linear(128, 128));
    model->push_back(torch::nn::GELU());
  }
  const torch::Tensor input = torch::randn({1024, 128});
  torch::optim::Adam optimizer(model->parameters());

  encore::MemoryBudget budget("20MiB");  // of all tensors: parameters, gradients, optimizer, activations
  for (int i = 0; i < 8; ++i) {
    auto step = budget.step();  // from here to the end of the loop's body the budget is kept
    optimizer.zero_grad();
    model->forward(input).square().mean().backward();  // the same gradients, bit for bit
    optimizer.step();
  }
  std::cout << budget.report().text();
}
