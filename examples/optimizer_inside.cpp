// An optimizer inside backward: each gradient is used and freed as soon as it is complete.
#include <iostream>

#include <torch/torch.h>

#include <encore/encore.h>

namespace {

int64_t peak_of_step(bool inside) {
  torch::manual_seed(1);
  torch::nn::Sequential net;
  for (int i = 0; i < 16; ++i) {
    net->push_back(torch::nn::Linear(128, 128));
    net->push_back(torch::nn::Tanh());
  }
  encore::CheckpointedSequential model(net);
  const at::Tensor input = torch::randn({4, 128});
  model->segment_sizes(input);  // plans now, outside the measurement
  const encore::MemoryScope memory;

  // [hooks]
  const auto update = [](const at::Tensor& leaf, const at::Tensor& grad) {
    const at::NoGradGuard no_grad;
    leaf.sub_(grad, 0.01);
    leaf.mutable_grad().reset();  // the gradient's memory is free before the next one is made
  };
  const at::Tensor loss = model->forward(input).pow(2).mean();
  if (inside) {
    encore::backward_with_hooks(loss, update);
  }
  // [hooks]
  else {
    loss.backward();
    for (const at::Tensor& parameter : model->parameters()) {
      update(parameter, parameter.grad());
    }
  }
  return memory.peak_growth_bytes();
}

}  // namespace

int main() {
  encore::live_tensor_bytes();  // the allocator counts from here on
  const int64_t after = peak_of_step(false);
  const int64_t inside = peak_of_step(true);
  std::cout << "peak of a step: " << encore::format_bytes(after) << " with the update after backward, "
            << encore::format_bytes(inside) << " inside\n";
  return inside < after / 2 ? 0 : 1;
}
