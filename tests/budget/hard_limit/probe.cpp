// Trains a deep chain whose activations take about 400 MB, plainly or within a budget, for a test that limits the
// process's memory from outside. Usage: probe plain|small|BYTES
#include <fstream>
#include <iostream>

#include <torch/torch.h>

#include <encore/encore.h>

namespace {

torch::Tensor loss_of(const torch::Tensor& weight, int64_t rows) {
  torch::manual_seed(1);
  torch::Tensor x = torch::randn({rows, 256});
  for (int layer = 0; layer < 50; ++layer) {
    x = x.matmul(weight).tanh();
  }
  return x.square().mean();
}

void train(torch::Tensor& weight, int64_t rows) {
  weight.mutable_grad() = torch::Tensor();
  loss_of(weight, rows).backward();
}

int64_t peak_address_space() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmPeak:") {
      int64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "plain";
  torch::Tensor weight = (torch::eye(256) + 0.01).requires_grad_();
  try {
    if (way == "plain" || way == "small") {
      train(weight, way == "small" ? 16 : 8192);
    } else {
      encore::MemoryBudget budget(way);
      for (int step = 0; step < 3; ++step) {
        const auto scope = budget.step();
        train(weight, 8192);
      }
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  std::cout << "gradient " << std::hexfloat << weight.grad().sum().item<float>() << std::defaultfloat
            << " address space " << peak_address_space() << "\n";
}
