// The ten lines of the README: a model whose blocks keep nothing for backward.
#include <torch/torch.h>

#include <iostream>

#include <encore/encore.h>

int main() {
  torch::nn::Sequential block(torch::nn::Linear(64, 256), torch::nn::GELU(), torch::nn::Linear(256, 64));
  torch::Tensor x = torch::randn({32, 64});

  for (int layer = 0; layer < 8; ++layer) {
    x = x + encore::checkpoint(block, x);  // keeps x, drops everything inside, brings it back in backward
  }
  torch::Tensor loss = x.square().mean();
  loss.backward();  // the same gradients, bit for bit

  std::cout << "loss " << loss.item<float>() << ", peak " << encore::format_bytes(encore::peak_tensor_bytes()) << "\n";
}
