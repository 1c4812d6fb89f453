// A deep network, plain and in checkpointed segments: activation memory and time, interleaved in one run.
// Usage: bench_deep [blocks [width [batch [rounds]]]]
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <torch/torch.h>

#include <encore/encore.h>

namespace {

/// x + W2 gelu(W1 norm(x)), four times as wide inside.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int64_t width)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        up(register_module("up", torch::nn::Linear(width, 4 * width))),
        down(register_module("down", torch::nn::Linear(4 * width, width))) {}
  at::Tensor forward(const at::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }

  torch::nn::LayerNorm norm;
  torch::nn::Linear up;
  torch::nn::Linear down;
};
TORCH_MODULE(Block);

struct Way {
  const char* name;
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::vector<double> seconds = {};
  int64_t peak_bytes = 0;
  std::vector<at::Tensor> gradients = {};
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double minimum(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int index, int64_t otherwise) {
    return argc > index ? std::atoll(argv[index]) : otherwise;
  };
  const int64_t blocks = argument(1, 16);
  const int64_t width = argument(2, 256);
  const int64_t batch = argument(3, 1024);
  const int64_t rounds = argument(4, 9);
  torch::manual_seed(1);
  encore::live_tensor_bytes();
  torch::nn::Sequential net;
  for (int64_t i = 0; i < blocks; ++i) {
    net->push_back(Block(width));
  }
  const at::Tensor input = torch::randn({batch, width});
  for (const at::Tensor& parameter : net->parameters()) {
    parameter.mutable_grad() = torch::zeros_like(parameter);
  }
  const auto root = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(blocks))));
  encore::CheckpointedSequential planned(net);
  encore::SequentialOptions matmuls;
  matmuls.checkpoint.policy = encore::keep_matmuls();
  std::vector<Way> ways = {
      {"plain", [&](const at::Tensor& x) { return net->forward(x); }},
      {"sqrt(n) segments", [&](const at::Tensor& x) { return encore::checkpoint_sequential(net, root, x); }},
      {"planned segments", [&](const at::Tensor& x) { return planned->forward(x); }},
      {"matmuls kept", [&](const at::Tensor& x) { return encore::checkpoint_sequential(matmuls, net, root, x); }},
  };
  for (int64_t round = -1; round < rounds; ++round) {  // the first warms up
    for (Way& way : ways) {
      for (const at::Tensor& parameter : net->parameters()) {
        parameter.grad().zero_();
      }
      const encore::MemoryScope memory;
      const auto start = std::chrono::steady_clock::now();
      way.forward(input).pow(2).mean().backward();
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      if (round < 0) {
        for (const at::Tensor& parameter : net->parameters()) {
          way.gradients.push_back(parameter.grad().clone());
        }
      } else {
        way.seconds.push_back(seconds.count());
        way.peak_bytes = memory.peak_growth_bytes();
      }
    }
  }

  std::printf("deep: %ld blocks of width %ld, batch %ld, %ld rounds, interleaved\n", static_cast<long>(blocks),
              static_cast<long>(width), static_cast<long>(batch), static_cast<long>(rounds));
  std::printf("%-18s %14s %8s %12s %8s %12s %8s  %s\n", "", "activations", "saved", "median", "extra", "minimum",
              "extra", "gradients");
  bool good = true;
  const Way& plain = ways.front();
  for (const Way& way : ways) {
    bool same = true;
    for (size_t i = 0; i < plain.gradients.size(); ++i) {
      same = same && torch::equal(way.gradients[i], plain.gradients[i]);
    }
    const auto part = [](double value, double whole) { return 100 * (value / whole - 1); };
    const double saved = -part(static_cast<double>(way.peak_bytes), static_cast<double>(plain.peak_bytes));
    std::printf("%-18s %14s %7.1f%% %9.1f ms %7.1f%% %9.1f ms %7.1f%%  %s\n", way.name,
                encore::format_bytes(way.peak_bytes).c_str(), saved, 1e3 * median(way.seconds),
                part(median(way.seconds), median(plain.seconds)), 1e3 * minimum(way.seconds),
                part(minimum(way.seconds), minimum(plain.seconds)), same ? "same bits" : "DIFFER");
    good = good && same && (&way == &plain || saved >= 0);
    if (&way == &ways[1] && saved < 50) {
      std::printf("deep: less than half of the activation memory was saved\n");
      good = false;
    }
  }
  return good ? 0 : 1;
}
