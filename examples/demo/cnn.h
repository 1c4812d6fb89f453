// A small residual network with batch norm, for grey images.
#pragma once

#include <vector>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace demo {

struct CnnConfig {
  int64_t width = 32;  ///< channels of the first stage; each stage has twice those of the one before, at half the size
  int64_t stages = 3;
  int64_t blocks_in_stage = 2;
  int64_t batch = 64;
};

/// Two 3x3 convolutions beside a shortcut.
struct ResidualImpl : torch::nn::Module {
  ResidualImpl(int64_t in, int64_t out, int64_t stride);
  torch::Tensor forward(const torch::Tensor& x);

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  torch::nn::Conv2d shortcut{nullptr};  // null where the block keeps the shape
};
TORCH_MODULE(Residual);

struct CnnImpl : torch::nn::Module {
  explicit CnnImpl(const CnnConfig& config);
  /// What comes before the blocks, and what comes after them.
  torch::Tensor begin(const torch::Tensor& images);
  torch::Tensor classify(const torch::Tensor& x);

  torch::nn::Conv2d stem{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  std::vector<Residual> blocks;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Cnn);

}  // namespace demo
