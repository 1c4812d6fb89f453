// Style transfer: the pixels of an image are what is trained, through a network that stays as it is.
#include "programs/programs.h"

namespace encore::test {
namespace {

struct FeaturesImpl : torch::nn::Module {
  FeaturesImpl() {
    const std::vector<int64_t> channels = {3, 16, 16, 32, 32, 48};
    for (size_t i = 0; i + 1 < channels.size(); ++i) {
      convs.push_back(
          register_module("conv" + std::to_string(i),
                          torch::nn::Conv2d(torch::nn::Conv2dOptions(channels[i], channels[i + 1], 3).padding(1))));
    }
    for (torch::Tensor& parameter : parameters()) {
      parameter.set_requires_grad(false);
    }
  }
  std::vector<torch::Tensor> forward(torch::Tensor x) {
    std::vector<torch::Tensor> features;
    for (size_t i = 0; i < convs.size(); ++i) {
      x = torch::relu(convs[i]->forward(x));
      if (i % 2 == 1) {
        x = torch::max_pool2d(x, 2);
      }
      features.push_back(x);
    }
    return features;
  }
  std::vector<torch::nn::Conv2d> convs;
};
TORCH_MODULE(Features);

torch::Tensor gram(const torch::Tensor& feature) {
  torch::Tensor flat = feature.reshape({feature.size(1), feature.size(2) * feature.size(3)});
  return torch::mm(flat, flat.t()).div(flat.numel());
}

struct Transfer {
  Transfer() {
    network->eval();
    torch::NoGradGuard no_grad;
    torch::Tensor content = torch::rand({1, 3, 80, 80});
    contents = network->forward(content);
    for (const torch::Tensor& feature : network->forward(torch::rand({1, 3, 80, 80}))) {
      grams.push_back(gram(feature));
    }
    image = content.clone();
    image.set_requires_grad(true);
  }

  torch::Tensor loss() {
    std::vector<torch::Tensor> features = network->forward(image);
    torch::Tensor content_loss = torch::zeros({});
    torch::Tensor style_loss = torch::zeros({});
    for (size_t i = 0; i < features.size(); ++i) {
      content_loss = content_loss + torch::mse_loss(features[i], contents[i]);
      style_loss = style_loss + torch::mse_loss(gram(features[i]), grams[i]);
    }
    return content_loss + 100 * style_loss;
  }

  Features network;
  std::vector<torch::Tensor> contents;
  std::vector<torch::Tensor> grams;
  torch::Tensor image;
};

}  // namespace

void transfer_style(Run& run) {
  Transfer transfer;
  torch::optim::Adam optimizer({transfer.image}, torch::optim::AdamOptions(3e-3).betas({0.5, 0.999}));

  auto budget = run.budget(transfer.network->parameters());
  for (int i = 0; i < 6; ++i) {
    auto step = budget.step();
    torch::Tensor loss = transfer.loss();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    run.loss(loss);
  }
  run.keep("image", transfer.image);
}

void transfer_style_by_lbfgs(Run& run) {
  Transfer transfer;
  torch::optim::LBFGS optimizer({transfer.image}, torch::optim::LBFGSOptions(0.5).max_iter(3).history_size(8));

  auto budget = run.budget(transfer.network->parameters());
  for (int i = 0; i < 6; ++i) {
    auto step = budget.step();
    torch::Tensor loss = optimizer.step([&] {
      optimizer.zero_grad();
      torch::Tensor now = transfer.loss();
      now.backward();
      return now;
    });
    {
      torch::NoGradGuard no_grad;
      transfer.image.clamp_(0, 1);
    }
    run.loss(loss);
  }
  run.keep("image", transfer.image);
}

}  // namespace encore::test
