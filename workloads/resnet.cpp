// A residual network of bottleneck blocks.
#include "workloads/resnet.h"

#include <string>

#include <ATen/CPUGeneratorImpl.h>

namespace workloads {
namespace {

constexpr int64_t kExpansion = 4;

torch::nn::Conv2d make_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  auto options = torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false);
  torch::nn::Conv2d conv(options);
  torch::nn::init::kaiming_normal_(conv->weight, 0.0, torch::kFanOut, torch::kReLU);
  return conv;
}

}  // namespace

BottleneckImpl::BottleneckImpl(int64_t in, int64_t width, int64_t stride) {
  const int64_t out = kExpansion * width;
  reduce = register_module("reduce", make_conv(in, width, 1));
  norm1 = register_module("norm1", torch::nn::BatchNorm2d(width));
  spread = register_module("spread", make_conv(width, width, 3, stride));
  norm2 = register_module("norm2", torch::nn::BatchNorm2d(width));
  widen = register_module("widen", make_conv(width, out, 1));
  norm3 = register_module("norm3", torch::nn::BatchNorm2d(out));
  if (stride != 1 || in != out) {
    shortcut = register_module("shortcut", make_conv(in, out, 1, stride));
    shortcut_norm = register_module("shortcut_norm", torch::nn::BatchNorm2d(out));
  }
}

torch::Tensor BottleneckImpl::forward(const torch::Tensor& x) {
  torch::Tensor y = norm1(reduce(x)).relu_();
  y = norm2(spread(y)).relu_();
  y = norm3(widen(y));
  y += shortcut ? shortcut_norm(shortcut(x)) : x;
  return y.relu_();
}

ResNetImpl::ResNetImpl(const ResNetConfig& config) {
  stem = register_module("stem", make_conv(3, config.width, 7, 2));
  norm = register_module("norm", torch::nn::BatchNorm2d(config.width));
  int64_t in = config.width;
  int64_t width = config.width;
  for (size_t stage = 0; stage < config.blocks.size(); ++stage) {
    for (int64_t i = 0; i < config.blocks[stage]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      blocks.push_back(register_module("block" + std::to_string(blocks.size()), Bottleneck(in, width, stride)));
      in = kExpansion * width;
    }
    width *= 2;
  }
  head = register_module("head", torch::nn::Linear(in, config.classes));
}

torch::Tensor ResNetImpl::forward(const torch::Tensor& images, const torch::Tensor& targets) {
  torch::Tensor x = norm(stem(images)).relu_();
  x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  for (Bottleneck& block : blocks) {
    x = block(x);
  }
  const torch::Tensor logits = head(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  return torch::cross_entropy_loss(logits, targets);
}

std::pair<torch::Tensor, torch::Tensor> make_batch(const ResNetConfig& config, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  const torch::Tensor images = torch::randn({config.batch, 3, config.image, config.image}, generator);
  return {images, torch::randint(config.classes, {config.batch}, generator, torch::kLong)};
}

}  // namespace workloads
