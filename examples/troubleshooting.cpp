// The questions of docs/troubleshooting.md, asked of a program.
#include <iostream>

#include <torch/torch.h>

#include <encore/encore.h>

int main() {
  torch::manual_seed(1);
  torch::nn::Sequential model;
  for (int i = 0; i < 12; ++i) {
    model->push_back(torch::nn::Linear(64, 64));
    model->push_back(torch::nn::GELU());
  }
  const torch::Tensor input = torch::randn({256, 64});

  // [peak]
  const encore::MemoryScope memory;
  model->forward(input).square().mean().backward();
  std::cout << "plain: " << encore::format_bytes(memory.peak_growth_bytes()) << " above what was there\n";
  // [peak]

  // [saved]
  const encore::CheckpointProfiler profiler;
  encore::checkpoint(model, input).square().mean().backward();
  std::cout << profiler.report().text();  // checkpoints that saved nothing are listed with the reason
  // [saved]

  // [values]
  encore::CheckpointOptions strict;
  strict.determinism_check = encore::DeterminismCheck::kValues;
  encore::checkpoint(strict, model, input).square().mean().backward();  // an error names the first op that differs
  // [values]

  // [refused]
  encore::MemoryBudget budget("256KiB");
  for (int tries = 0; tries < 16; ++tries) {
    try {
      const auto step = budget.step();
      model->zero_grad();
      model->forward(input).square().mean().backward();
      break;
    } catch (const encore::BudgetError& error) {
      std::cout << error.what() << "\n";
      budget.set_limit(error.figures().least_bytes);  // in a first step: what it takes up to there
    }
  }
  std::cout << budget.report().text();
  // [refused]
  return budget.report().refused ? 1 : 0;
}
