// Layer-wise checkpoints of a chain that is driven by hand.
#include <iostream>

#include <torch/torch.h>

#include <encore/encore.h>

int main() {
  encore::live_tensor_bytes();  // the allocator counts from here on
  std::vector<at::Tensor> weights;
  std::vector<int64_t> layers;
  for (int64_t i = 0; i < 12; ++i) {
    weights.push_back((torch::randn({64, 64}) / 8).requires_grad_());
    layers.push_back(i);
  }
  const at::Tensor input = torch::randn({16, 64});

  // [layers]
  encore::LayerCheckpointConfig config;
  config.checkpoint_every_n_layers = 4;
  encore::ActivationCheckpointer checkpointer(config);
  const auto layer = [&](const at::Tensor& x, int64_t i) { return x.mm(weights[static_cast<size_t>(i)]).tanh(); };
  const at::Tensor output = checkpointer.checkpointed_forward(input, layers, layer);
  const at::Tensor seventh = checkpointer.recompute_from_checkpoint(7, layers, layer);
  const at::Tensor input_gradient = checkpointer.backward_through(layers, torch::ones_like(output), layer);
  // [layers]

  std::cout << checkpointer.num_checkpoints()
            << " activations and the input kept: " << encore::format_bytes(checkpointer.memory_stored_bytes())
            << "; saved " << encore::format_bytes(checkpointer.memory_saved_bytes()) << "\n";

  // The same by autograd.
  at::Tensor leaf = input.clone().requires_grad_();
  at::Tensor plain = leaf;
  for (const int64_t i : layers) {
    plain = layer(plain, i);
  }
  const at::Tensor expected = torch::autograd::grad({plain.sum()}, {leaf})[0];
  return torch::equal(plain, output) && torch::equal(expected, input_gradient) && weights[0].grad().defined() &&
                 seventh.size(0) == 16
             ? 0
             : 1;
}
