// Node segments: recompute ranges of recorded ops.
#include <iostream>

#include <torch/torch.h>

#include <encore/encore.h>

int main() {
  const at::Tensor x = torch::randn({64, 64}).requires_grad_();
  const auto network = [](at::Tensor value) {
    for (int i = 0; i < 12; ++i) {
      value = value.sin();
    }
    return value;
  };

  // [segments]
  const int64_t nodes = encore::count_nodes(network, x);
  const auto config = encore::CheckpointConfig::uniform(nodes, 3);
  encore::Scope scope(config);
  const at::Tensor y = network(x);
  scope.end();
  y.sum().backward();
  // [segments]

  for (const encore::CheckpointSegment& segment : config.segments) {
    std::cout << "nodes " << segment.start_node << " to " << segment.end_node << " are recomputed\n";
  }
  const encore::ScopeStats stats = scope.stats();
  std::cout << stats.values_dropped << " values dropped, " << encore::format_bytes(stats.bytes_dropped) << "; "
            << stats.ops_replayed << " of " << nodes << " ops run again\n";
  const at::Tensor plain = torch::autograd::grad({network(x).sum()}, {x})[0];
  return torch::equal(plain, x.grad()) && stats.ops_replayed == 9 ? 0 : 1;
}
