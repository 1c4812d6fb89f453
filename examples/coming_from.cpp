// What other frameworks call it, and what Encore does: the right-hand sides of docs/coming_from.md.
#include <iostream>

#include <torch/torch.h>

#include <encore/encore.h>

int main() {
  torch::manual_seed(1);
  torch::nn::Sequential block(torch::nn::Linear(32, 32), torch::nn::GELU(), torch::nn::Dropout(0.1));
  torch::nn::Sequential model;
  for (int i = 0; i < 8; ++i) {
    model->push_back(torch::nn::Linear(32, 32));
    model->push_back(torch::nn::GELU());
  }
  const torch::Tensor weight = torch::randn({32, 32}).requires_grad_();
  torch::Tensor x = torch::randn({64, 32});

  // [torch]
  torch::Tensor y = encore::checkpoint(block, x);
  y = encore::checkpoint_sequential(model, /*segments=*/4, y);
  // [torch]

  // [options]
  encore::CheckpointOptions options;
  options.preserve_rng_state = false;
  options.determinism_check = encore::DeterminismCheck::kNone;
  y = encore::checkpoint(options, block, y);
  // [options]

  // [jax]
  encore::CheckpointOptions dots;
  dots.policy = encore::keep_matmuls();
  const auto layer = encore::checkpoint(dots, [&](const torch::Tensor& in) { return in.mm(weight).tanh(); });
  y = layer(y);
  // [jax]
  y.sum().backward();

  // [mlx]
  const auto loss = [](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{in[0].mm(in[1]).sum()}; };
  const auto gradients = encore::grad(encore::checkpoint(loss), {0, 1})({x, weight});
  // [mlx]

  // [budget]
  torch::optim::Adam optimizer(model->parameters());
  auto budget = encore::MemoryBudget::fraction(0.5);  // or MemoryBudget("512MiB")
  for (int i = 0; i < 4; ++i) {
    auto step = budget.step();
    optimizer.zero_grad();
    model->forward(x).square().mean().backward();
    optimizer.step();
  }
  // [budget]
  std::cout << budget.report().text();
  return weight.grad().defined() && gradients.size() == 2 ? 0 : 1;
}
