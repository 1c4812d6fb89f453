// Derivatives as functions, with checkpoints inside and outside.
#include <iostream>

#include <torch/torch.h>

#include <encore/encore.h>

using Tensors = std::vector<at::Tensor>;

int main() {
  // [transforms]
  const auto square = encore::checkpoint([](const Tensors& x) { return Tensors{x[0] * x[0]}; });
  const auto cube = [](const Tensors& x) { return Tensors{x[0] * x[0] * x[0]}; };
  const Tensors three = {torch::tensor(3.0F)};

  const at::Tensor slope = encore::grad(square)(three)[0];
  const at::Tensor bend = encore::grad(encore::checkpoint(encore::grad(cube)))(three)[0];
  const auto [values, gradients] = encore::value_and_grad(cube)(three);
  const auto [results, products] = encore::vjp(square, three, {torch::tensor(10.0F)});
  // [transforms]

  std::cout << "square at 3: " << square(three)[0].item<float>() << ", slope " << slope.item<float>() << "\n"
            << "cube at 3: " << values[0].item<float>() << ", slope " << gradients[0].item<float>()
            << ", second derivative " << bend.item<float>() << "\n"
            << "10 times the slope of square: " << products[0].item<float>() << "\n";
  const bool right = slope.item<float>() == 6 && bend.item<float>() == 18 && gradients[0].item<float>() == 27 &&
                     products[0].item<float>() == 60 && results[0].item<float>() == 9;
  return right ? 0 : 1;
}
