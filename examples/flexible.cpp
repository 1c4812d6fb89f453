// Flexible inputs and results, and groups that are recomputed together.
#include <iostream>

#include <torch/torch.h>

#include <encore/encore.h>

int main() {
  const at::Tensor a = torch::randn({32, 32}).requires_grad_();
  const at::Tensor b = torch::randn({32, 32}).requires_grad_();

  // [segments]
  // Any container of tensors, or a braced list.
  const auto mix = [](const auto& in) { return in[0].mm(in[1]).tanh().mm(in[0]); };
  const at::Tensor from_array = encore::checkpoint_segment(std::array<at::Tensor, 2>{a, b}, mix);
  const at::Tensor from_list = encore::checkpoint_segment({a, b}, mix);
  // [segments]

  // [group]
  // Functions of one group are recomputed together, once. Tuples go in and come out.
  const encore::CheckpointGroup heads;
  const auto [mean, spread] = heads.checkpoint(
      [](const at::Tensor& x, const at::Tensor& y) {
        const at::Tensor hidden = (x + y).tanh();
        return std::make_tuple(hidden.mm(x), hidden.mm(y).exp());
      },
      a, b);
  const at::Tensor value = heads.checkpoint([](const at::Tensor& x) { return x.sin().exp().sin(); }, a);
  // [group]

  const encore::CheckpointProfiler profiler;
  (from_array + from_list + mean + spread + value).sum().backward();
  std::cout << profiler.report().ops_replayed << " ops were run again\n";
  return torch::equal(from_array, from_list) && profiler.report().ops_replayed > 0 && a.grad().defined() ? 0 : 1;
}
