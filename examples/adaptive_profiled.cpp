// Single tensors, chosen by size, with a profiler that says what that saved.
#include <iostream>

#include <torch/torch.h>

#include <encore/encore.h>

int main() {
  const at::Tensor x = torch::randn({64, 64}).requires_grad_();
  const at::Tensor wide = torch::randn({64, 1024}).requires_grad_();

  // [adaptive]
  const encore::CheckpointProfiler profiler;
  const encore::Scope scope(encore::keep_all(), "forward");
  at::Tensor y = encore::adaptive_checkpoint(x.mm(wide).relu(), 64 * 1024);  // 256 KiB: recomputed
  y = encore::adaptive_checkpoint(y.mm(wide.t()).tanh(), 64 * 1024);         // 16 KiB: kept
  encore::checkpoint(x);                                                     // an input: nothing to recompute it from
  y.pow(2).sum().backward();
  std::cout << profiler.report().text();
  // [adaptive]

  const encore::ProfilerReport report = profiler.report();
  return report.memory_saved_bytes == 64 * 1024 * 4 && report.warnings.size() == 1 ? 0 : 1;
}
