// Before the training: how many bytes a step will need, how long it will take, and the largest batch that fits.
#include <torch/torch.h>

#include <iostream>

#include <encore/encore.h>

int main() {
  torch::manual_seed(1);
  torch::nn::Sequential model;
  for (int layer = 0; layer < 12; ++layer) {
    model->push_back(torch::nn::Linear(128, 128));
    model->push_back(torch::nn::GELU());
  }
  const torch::Tensor inputs = torch::randn({4096, 128});
  torch::optim::Adam optimizer(model->parameters());

  encore::MemoryBudget budget("16MiB");
  const auto train = [&](int64_t batch) {
    optimizer.zero_grad();
    model->forward(inputs.slice(0, 0, batch)).square().mean().backward();
    optimizer.step();
  };
  const auto rehearsed = budget.rehearse([&] { train(256); }, {&optimizer});  // nothing has changed afterwards
  std::cout << rehearsed.text();
  const auto found = budget.largest_batch(train, 16, inputs.size(0), {&optimizer});
  std::cout << "the largest batch is " << found.batch << ", found in " << found.rehearsals << " rehearsals\n";
  {
    auto step = budget.step();
    train(found.batch);
  }
  std::cout << budget.report().text();  // the very first step followed a plan
  return budget.report().mode == encore::StepMode::kPlanned ? 0 : 1;
}
