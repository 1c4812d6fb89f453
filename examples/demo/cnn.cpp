// A small residual network with batch norm.
#include "cnn.h"

#include <torch/torch.h>

#include "data.h"

namespace demo {
namespace {

torch::nn::Conv2d make_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

}  // namespace

ResidualImpl::ResidualImpl(int64_t in, int64_t out, int64_t stride) {
  conv1 = register_module("conv1", make_conv(in, out, 3, stride));
  norm1 = register_module("norm1", torch::nn::BatchNorm2d(out));
  conv2 = register_module("conv2", make_conv(out, out, 3));
  norm2 = register_module("norm2", torch::nn::BatchNorm2d(out));
  if (in != out || stride != 1) {
    shortcut = register_module("shortcut", make_conv(in, out, 1, stride));
  }
}

torch::Tensor ResidualImpl::forward(const torch::Tensor& x) {
  const torch::Tensor y = norm2(conv2(torch::relu(norm1(conv1(x)))));
  return torch::relu(y + (shortcut ? shortcut(x) : x));
}

CnnImpl::CnnImpl(const CnnConfig& config) {
  stem = register_module("stem", make_conv(1, config.width, 3));
  norm = register_module("norm", torch::nn::BatchNorm2d(config.width));
  int64_t in = config.width;
  for (int64_t stage = 0; stage < config.stages; ++stage) {
    const int64_t out = config.width << stage;
    for (int64_t i = 0; i < config.blocks_in_stage; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      blocks.push_back(register_module("block" + std::to_string(blocks.size()), Residual(in, out, stride)));
      in = out;
    }
  }
  head = register_module("head", torch::nn::Linear(in, Images::kClasses));
}

torch::Tensor CnnImpl::begin(const torch::Tensor& images) {
  return torch::relu(norm(stem(images)));
}

torch::Tensor CnnImpl::classify(const torch::Tensor& x) {
  return head(x.mean({2, 3}));
}

}  // namespace demo
