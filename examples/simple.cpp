// Simple checkpointing: the same value and gradient, without keeping what is inside.
#include <iostream>

#include <torch/torch.h>

#include <encore/encore.h>

int main() {
  const at::Tensor x = torch::tensor({2.0F, 3.0F}).requires_grad_();

  // [checkpoint]
  // A function, checkpointed: it has the signature of the function that it was made from.
  const auto square = encore::checkpoint([](const at::Tensor& in) { return in * in; });
  square(x).sum().backward();
  // [checkpoint]
  std::cout << "gradient of the sum of squares at 2 and 3: " << x.grad()[0].item<float>() << ", "
            << x.grad()[1].item<float>() << "\n";

  // Several inputs, called now; a weight that the function captures gets its gradient too.
  const at::Tensor w = torch::randn({2}).requires_grad_();
  const at::Tensor y = encore::checkpoint(
      [w](const at::Tensor& a, const at::Tensor& b) { return (a * w).tanh() * b.exp(); }, x, torch::ones({2}));
  y.sum().backward();
  std::cout << "the captured weight has a gradient: " << (w.grad().defined() ? "yes" : "no") << "\n";

  const bool right = x.grad().defined() && w.grad().defined() && square(torch::tensor({3.0F})).item<float>() == 9;
  return right ? 0 : 1;
}
