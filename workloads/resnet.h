// A residual network of bottleneck blocks, ResNet-50 as it stands, for tests and benchmarks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace workloads {

struct ResNetConfig {
  std::vector<int64_t> blocks = {3, 4, 6, 3};  // in each stage
  int64_t width = 64;                          // channels of the stem; each stage has twice those of the one before
  int64_t image = 160;                         // pixels on a side
  int64_t batch = 8;
  int64_t classes = 1000;
};

/// 1x1, 3x3 (with the stride), 1x1 to four times the width, and a shortcut; relu works in place.
struct BottleneckImpl : torch::nn::Module {
  BottleneckImpl(int64_t in, int64_t width, int64_t stride);
  torch::Tensor forward(const torch::Tensor& x);

  torch::nn::Conv2d reduce{nullptr}, spread{nullptr}, widen{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr}, norm3{nullptr};
  torch::nn::Conv2d shortcut{nullptr};  // null where the block keeps the shape, as is its norm
  torch::nn::BatchNorm2d shortcut_norm{nullptr};
};
TORCH_MODULE(Bottleneck);

struct ResNetImpl : torch::nn::Module {
  explicit ResNetImpl(const ResNetConfig& config);
  /// The loss of classifying `images` as `targets`.
  torch::Tensor forward(const torch::Tensor& images, const torch::Tensor& targets);

  torch::nn::Conv2d stem{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  std::vector<Bottleneck> blocks;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(ResNet);

/// Images of noise and their classes, made from a seed.
std::pair<torch::Tensor, torch::Tensor> make_batch(const ResNetConfig& config, uint64_t seed);

}  // namespace workloads
