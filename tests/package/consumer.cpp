// Checkpoints a function with the installed library.
#include <ATen/ATen.h>

#include <encore/encore.h>

int main() {
  const at::Tensor x = at::ones({3}).requires_grad_();
  encore::checkpoint([](const at::Tensor& in) { return in.exp().sin(); }, x).sum().backward();
  return x.grad().defined() ? 0 : 1;
}
