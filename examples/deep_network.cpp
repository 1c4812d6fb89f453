// A deep network, plain and checkpointed: memory and time side by side.
#include <chrono>
#include <iostream>

#include <torch/torch.h>

#include <encore/encore.h>

namespace {

template <class Net>
int64_t run(const char* name, Net& net, const at::Tensor& input) {
  net->forward(input).sum().backward();  // gradients are there from here on
  net->zero_grad(/*set_to_none=*/false);
  const encore::MemoryScope memory;
  const auto start = std::chrono::steady_clock::now();
  net->forward(input).sum().backward();
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  std::cout << name << ": " << encore::format_bytes(memory.peak_growth_bytes()) << " of activations, " << time.count()
            << " ms\n";
  return memory.peak_growth_bytes();
}

}  // namespace

int main() {
  encore::live_tensor_bytes();  // the allocator counts from here on
  torch::nn::Sequential net;
  for (int i = 0; i < 24; ++i) {
    net->push_back(torch::nn::Linear(64, 64));
    net->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})));
    net->push_back(torch::nn::GELU());
  }
  const at::Tensor input = torch::randn({256, 64});

  // [sequential]
  // The same modules under the same names. It finds its segments by itself, at the first forward of each input shape.
  encore::CheckpointedSequential checkpointed(net);
  // [sequential]
  const int64_t plain_bytes = run("plain", net, input);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : net->parameters()) {
    gradients.push_back(parameter.grad().clone());
  }
  const int64_t checkpointed_bytes = run("checkpointed", checkpointed, input);
  bool same = true;
  for (size_t i = 0; i < gradients.size(); ++i) {
    same = same && torch::equal(gradients[i], net->parameters()[i].grad());
  }
  std::cout << checkpointed->segment_sizes(input).size() << " segments, gradients " << (same ? "equal" : "DIFFER")
            << " bit for bit\n";
  return same && checkpointed_bytes < plain_bytes / 2 ? 0 : 1;
}
