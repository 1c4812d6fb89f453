// A residual network with batch norm on small images, its learning rate set by hand.
#include "programs/programs.h"

namespace encore::test {
namespace {

torch::nn::Conv2d conv3x3(int64_t from, int64_t to, int64_t stride = 1) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).stride(stride).padding(1).bias(false));
}

struct BlockImpl : torch::nn::Module {
  BlockImpl(int64_t from, int64_t to, int64_t stride)
      : conv1(conv3x3(from, to, stride)),
        norm1(to),
        relu(torch::nn::ReLUOptions(true)),
        conv2(conv3x3(to, to)),
        norm2(to) {
    register_module("conv1", conv1);
    register_module("norm1", norm1);
    register_module("relu", relu);
    register_module("conv2", conv2);
    register_module("norm2", norm2);
    if (from != to || stride != 1) {
      downsample = torch::nn::Sequential(conv3x3(from, to, stride), torch::nn::BatchNorm2d(to));
      register_module("downsample", downsample);
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor out = conv1->forward(x);
    out = norm1->forward(out);
    out = relu->forward(out);
    out = conv2->forward(out);
    out = norm2->forward(out);
    torch::Tensor residual = downsample ? downsample->forward(x) : x;
    out += residual;
    return relu->forward(out);
  }
  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d norm1;
  torch::nn::ReLU relu;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d norm2;
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(Block);

struct ResNetImpl : torch::nn::Module {
  ResNetImpl() : conv(conv3x3(3, 16)), norm(16), fc(64, 10) {
    register_module("conv", conv);
    register_module("norm", norm);
    layers = register_module("layers", torch::nn::Sequential(Block(16, 16, 1), Block(16, 16, 1), Block(16, 32, 2),
                                                             Block(32, 32, 1), Block(32, 64, 2), Block(64, 64, 1)));
    register_module("fc", fc);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor out = torch::relu(norm->forward(conv->forward(x)));
    out = layers->forward(out);
    out = torch::avg_pool2d(out, 6);
    return fc->forward(out.view({out.size(0), -1}));
  }
  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d norm;
  torch::nn::Sequential layers{nullptr};
  torch::nn::Linear fc;
};
TORCH_MODULE(ResNet);

}  // namespace

void train_resnet(Run& run) {
  ResNet model;
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
  torch::Tensor images = torch::rand({6, 16, 3, 24, 24});
  torch::Tensor labels = torch::randint(10, {6, 16}, torch::kLong);

  auto budget = run.budget(model->parameters());
  for (int i = 0; i < 6; ++i) {
    auto step = budget.step();
    torch::Tensor output = model->forward(images[i]);
    torch::Tensor loss = torch::nn::functional::cross_entropy(output, labels[i]);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (i % 2 == 1) {
      static_cast<torch::optim::AdamOptions&>(optimizer.param_groups().front().options()).lr(1e-3 / (i + 1));
    }
    run.loss(loss);
  }
  run.keep("model", *model);
}

}  // namespace encore::test
