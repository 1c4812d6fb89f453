// A GAN with two optimizers: both updates in one step, and each as a step of its own.
#include "programs/programs.h"

namespace encore::test {
namespace {

using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::ConvTranspose2d;
using torch::nn::ConvTranspose2dOptions;

constexpr int64_t kNoise = 32;
constexpr int64_t kBatch = 48;

struct GeneratorImpl : torch::nn::Module {
  GeneratorImpl()
      : conv1(ConvTranspose2dOptions(kNoise, 64, 4).bias(false)),
        norm1(64),
        conv2(ConvTranspose2dOptions(64, 32, 3).stride(2).padding(1).bias(false)),
        norm2(32),
        conv3(ConvTranspose2dOptions(32, 16, 4).stride(2).padding(1).bias(false)),
        norm3(16),
        conv4(ConvTranspose2dOptions(16, 1, 4).stride(2).padding(1).bias(false)) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv3", conv3);
    register_module("conv4", conv4);
    register_module("norm1", norm1);
    register_module("norm2", norm2);
    register_module("norm3", norm3);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(norm1(conv1(x)));
    x = torch::relu(norm2(conv2(x)));
    x = torch::relu(norm3(conv3(x)));
    return torch::tanh(conv4(x));
  }
  ConvTranspose2d conv1;
  BatchNorm2d norm1;
  ConvTranspose2d conv2;
  BatchNorm2d norm2;
  ConvTranspose2d conv3;
  BatchNorm2d norm3;
  ConvTranspose2d conv4;
};
TORCH_MODULE(Generator);

torch::nn::Sequential make_discriminator() {
  const auto leaky = torch::nn::LeakyReLUOptions().negative_slope(0.2);
  return torch::nn::Sequential(
      Conv2d(Conv2dOptions(1, 16, 4).stride(2).padding(1).bias(false)), torch::nn::LeakyReLU(leaky),
      Conv2d(Conv2dOptions(16, 32, 4).stride(2).padding(1).bias(false)), BatchNorm2d(32), torch::nn::LeakyReLU(leaky),
      Conv2d(Conv2dOptions(32, 64, 4).stride(2).padding(1).bias(false)), BatchNorm2d(64), torch::nn::LeakyReLU(leaky),
      Conv2d(Conv2dOptions(64, 1, 3).bias(false)), torch::nn::Sigmoid());
}

struct Gan {
  Gan() {
    for (int i = 0; i < 6; ++i) {
      images.push_back(torch::rand({kBatch, 1, 28, 28}) * 2 - 1);
    }
  }

  void update_discriminator(const torch::Tensor& real, const torch::Tensor& fake, Run& run) {
    discriminator->zero_grad();
    torch::Tensor real_labels = torch::empty(kBatch).uniform_(0.8, 1.0);
    torch::Tensor real_output = discriminator->forward(real).reshape(real_labels.sizes());
    torch::Tensor real_loss = torch::binary_cross_entropy(real_output, real_labels);
    real_loss.backward();
    torch::Tensor fake_labels = torch::zeros(kBatch);
    torch::Tensor fake_output = discriminator->forward(fake.detach()).reshape(fake_labels.sizes());
    torch::Tensor fake_loss = torch::binary_cross_entropy(fake_output, fake_labels);
    fake_loss.backward();
    discriminator_optimizer.step();
    run.loss(real_loss + fake_loss);
  }

  void update_generator(const torch::Tensor& fake, Run& run) {
    generator->zero_grad();
    torch::Tensor labels = torch::ones(kBatch);
    torch::Tensor output = discriminator->forward(fake).reshape(labels.sizes());
    torch::Tensor loss = torch::binary_cross_entropy(output, labels);
    loss.backward();
    generator_optimizer.step();
    run.loss(loss);
  }

  std::vector<torch::Tensor> parameters() const {
    std::vector<torch::Tensor> all = generator->parameters();
    for (const torch::Tensor& parameter : discriminator->parameters()) {
      all.push_back(parameter);
    }
    return all;
  }
  void keep(Run& run) {
    run.keep("generator", *generator);
    run.keep("discriminator", *discriminator);
  }

  Generator generator;
  torch::nn::Sequential discriminator = make_discriminator();
  torch::optim::Adam generator_optimizer{generator->parameters(), torch::optim::AdamOptions(2e-4).betas({0.5, 0.999})};
  torch::optim::Adam discriminator_optimizer{discriminator->parameters(),
                                             torch::optim::AdamOptions(2e-4).betas({0.5, 0.999})};
  std::vector<torch::Tensor> images;
};

}  // namespace

void train_gan(Run& run) {
  Gan gan;

  auto budget = run.budget(gan.parameters());
  for (const torch::Tensor& real : gan.images) {
    auto step = budget.step();
    torch::Tensor fake = gan.generator(torch::randn({kBatch, kNoise, 1, 1}));
    gan.update_discriminator(real, fake, run);
    gan.update_generator(fake, run);
  }
  gan.keep(run);
}

void train_gan_by_turns(Run& run) {
  Gan gan;

  auto budget = run.budget(gan.parameters());
  for (const torch::Tensor& real : gan.images) {
    {
      auto step = budget.step();
      gan.update_discriminator(real, gan.generator(torch::randn({kBatch, kNoise, 1, 1})), run);
    }
    {
      auto step = budget.step();
      gan.update_generator(gan.generator(torch::randn({kBatch, kNoise, 1, 1})), run);
    }
  }
  gan.keep(run);
}

}  // namespace encore::test
