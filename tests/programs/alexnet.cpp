// An AlexNet for small images: convolutions, ReLU in place, dropout before wide linear layers.
#include "programs/programs.h"

namespace encore::test {
namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Linear;
using torch::nn::MaxPool2d;
using torch::nn::MaxPool2dOptions;
using torch::nn::ReLU;

struct AlexNetImpl : torch::nn::Module {
  AlexNetImpl() {
    const auto in_place = torch::nn::ReLUOptions(true);
    features =
        register_module("features", torch::nn::Sequential(Conv2d(Conv2dOptions(3, 32, 5).stride(2).padding(2)),
                                                          ReLU(in_place), MaxPool2d(MaxPool2dOptions(3).stride(2)),
                                                          Conv2d(Conv2dOptions(32, 64, 5).padding(2)), ReLU(in_place),
                                                          MaxPool2d(MaxPool2dOptions(3).stride(2)),
                                                          Conv2d(Conv2dOptions(64, 96, 3).padding(1)), ReLU(in_place),
                                                          Conv2d(Conv2dOptions(96, 64, 3).padding(1)), ReLU(in_place)));
    pool = register_module("pool", torch::nn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions({3, 3})));
    classifier =
        register_module("classifier", torch::nn::Sequential(torch::nn::Dropout(0.5), Linear(64 * 9, 256),
                                                            ReLU(in_place), torch::nn::Dropout(0.5), Linear(256, 256),
                                                            ReLU(in_place), Linear(256, 10)));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = pool->forward(features->forward(x));
    return classifier->forward(torch::flatten(x, 1));
  }
  torch::nn::Sequential features{nullptr};
  torch::nn::AdaptiveAvgPool2d pool{nullptr};
  torch::nn::Sequential classifier{nullptr};
};
TORCH_MODULE(AlexNet);

}  // namespace

void train_alexnet(Run& run) {
  AlexNet model;
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9).weight_decay(5e-4));
  torch::Tensor images = torch::rand({6, 32, 3, 32, 32});
  torch::Tensor labels = torch::randint(10, {6, 32}, torch::kLong);

  auto budget = run.budget(model->parameters());
  model->train();
  for (int i = 0; i < 6; ++i) {
    auto step = budget.step();
    optimizer.zero_grad();
    torch::Tensor loss = torch::nn::functional::cross_entropy(model->forward(images[i]), labels[i]);
    loss.backward();
    optimizer.step();
    run.loss(loss);
  }
  run.keep("model", *model);
}

}  // namespace encore::test
