// A U-Net.
#include "workloads/unet.h"

#include <string>

#include <ATen/CPUGeneratorImpl.h>

namespace workloads {

DoubleConvImpl::DoubleConvImpl(int64_t in, int64_t out) {
  const auto conv = [](int64_t from, int64_t to) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1).bias(false));
  };
  conv1 = register_module("conv1", conv(in, out));
  norm1 = register_module("norm1", torch::nn::BatchNorm2d(out));
  conv2 = register_module("conv2", conv(out, out));
  norm2 = register_module("norm2", torch::nn::BatchNorm2d(out));
}

torch::Tensor DoubleConvImpl::forward(const torch::Tensor& x) {
  const torch::Tensor y = norm1(conv1(x)).relu_();
  return norm2(conv2(y)).relu_();
}

UNetImpl::UNetImpl(const UNetConfig& config) {
  int64_t in = 3;
  int64_t width = config.base;
  for (int64_t level = 0; level <= config.levels; ++level) {
    down.push_back(register_module("down" + std::to_string(level), DoubleConv(in, width)));
    in = width;
    width *= 2;
  }
  for (int64_t level = 0; level < config.levels; ++level) {
    const std::string number = std::to_string(level);
    const auto options = torch::nn::ConvTranspose2dOptions(in, in / 2, 2).stride(2);
    widen.push_back(register_module("widen" + number, torch::nn::ConvTranspose2d(options)));
    up.push_back(register_module("up" + number, DoubleConv(in, in / 2)));
    in /= 2;
  }
  head = register_module("head", torch::nn::Conv2d(torch::nn::Conv2dOptions(in, config.classes, 1)));
}

torch::Tensor UNetImpl::forward(const torch::Tensor& images, const torch::Tensor& targets) {
  std::vector<torch::Tensor> skips;
  torch::Tensor x = down[0](images);
  for (size_t level = 1; level < down.size(); ++level) {
    skips.push_back(x);
    x = down[level](torch::max_pool2d(x, 2));
  }
  for (size_t level = 0; level < up.size(); ++level) {
    x = torch::cat({skips.back(), widen[level](x)}, 1);
    skips.pop_back();
    x = up[level](x);
  }
  return torch::cross_entropy_loss(head(x), targets);
}

std::pair<torch::Tensor, torch::Tensor> make_batch(const UNetConfig& config, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  const torch::Tensor images = torch::randn({config.batch, 3, config.image, config.image}, generator);
  return {images, torch::randint(config.classes, {config.batch, config.image, config.image}, generator, torch::kLong)};
}

}  // namespace workloads
