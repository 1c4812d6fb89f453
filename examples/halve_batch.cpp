// A batch that does not fit: catch the refusal, halve the batch, go on. The bits are those of the halves alone.
#include <iostream>
#include <string>

#include <torch/torch.h>

#include <encore/encore.h>

namespace {

/// The bits of parameters and statistics; `batch` becomes what fitted.
std::string train(int64_t& batch) {
  torch::manual_seed(1);
  torch::nn::Sequential model;
  for (int layer = 0; layer < 12; ++layer) {
    model->push_back(torch::nn::Linear(128, 128));
    model->push_back(torch::nn::BatchNorm1d(128));
    model->push_back(torch::nn::GELU());
    model->push_back(torch::nn::Dropout(0.1));
  }
  torch::optim::Adam optimizer(model->parameters());
  const torch::Tensor inputs = torch::randn({16384, 128});

  // [halve]
  encore::MemoryBudget budget("20MiB");
  for (int64_t row = 0; row < inputs.size(0);) {
    try {
      auto step = budget.step();
      optimizer.zero_grad();
      model->forward(inputs.slice(0, row, row + batch)).square().mean().backward();
      optimizer.step();
      row += batch;
    } catch (const encore::BudgetError& error) {
      if (batch == 1) {
        throw;
      }
      batch /= 2;  // dropout's generator, batch norm's statistics and all gradients are as they were before the step
      std::cout << error.what() << "\nthe batch is " << batch << " now\n";
    }
  }
  // [halve]
  std::cout << "trained in batches of " << batch << "\n";
  std::string bits;
  for (const auto& tensors : {model->parameters(), model->buffers()}) {
    for (const torch::Tensor& tensor : tensors) {
      bits.append(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
    }
  }
  return bits;
}

}  // namespace

int main() {
  int64_t batch = 8192;
  const std::string halved = train(batch);
  const int64_t fitted = batch;
  const std::string alone = train(batch);
  const bool same = fitted < 8192 && batch == fitted && halved == alone;
  std::cout << "parameters and statistics are " << (same ? "" : "NOT ") << "those of the halves alone\n";
  return same ? 0 : 1;
}
