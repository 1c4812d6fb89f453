// A U-Net: contracting and expanding levels joined by skip connections, for tests and benchmarks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

namespace workloads {

struct UNetConfig {
  int64_t levels = 4;  // each halves the image; the side must be a multiple of 2^levels
  int64_t base = 32;   // channels of the first level; each level has twice those of the one above
  int64_t image = 128;
  int64_t batch = 4;
  int64_t classes = 2;
};

/// Twice: 3x3 convolution, batch norm, relu.
struct DoubleConvImpl : torch::nn::Module {
  DoubleConvImpl(int64_t in, int64_t out);
  torch::Tensor forward(const torch::Tensor& x);

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
};
TORCH_MODULE(DoubleConv);

struct UNetImpl : torch::nn::Module {
  explicit UNetImpl(const UNetConfig& config);
  /// The mean loss of classifying every pixel as `targets` says.
  torch::Tensor forward(const torch::Tensor& images, const torch::Tensor& targets);

  std::vector<DoubleConv> down;  // the last is the bottom
  std::vector<torch::nn::ConvTranspose2d> widen;
  std::vector<DoubleConv> up;
  torch::nn::Conv2d head{nullptr};
};
TORCH_MODULE(UNet);

/// Images of noise and the classes of their pixels, made from a seed.
std::pair<torch::Tensor, torch::Tensor> make_batch(const UNetConfig& config, uint64_t seed);

}  // namespace workloads
