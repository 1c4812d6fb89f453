// A variational autoencoder of linear layers.
#include "programs/programs.h"

namespace encore::test {
namespace {

struct VaeImpl : torch::nn::Module {
  VaeImpl() : fc1(784, 200), fc2(200, 20), fc3(200, 20), fc4(20, 200), fc5(200, 784) {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    register_module("fc3", fc3);
    register_module("fc4", fc4);
    register_module("fc5", fc5);
  }
  std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) {
    torch::Tensor h = torch::relu(fc1->forward(x));
    torch::Tensor mu = fc2->forward(h);
    torch::Tensor log_var = fc3->forward(h);
    torch::Tensor std = log_var.div(2).exp();
    torch::Tensor z = mu + torch::randn_like(std) * std;
    torch::Tensor reconstruction = torch::sigmoid(fc5->forward(torch::relu(fc4->forward(z))));
    return {reconstruction, mu, log_var};
  }
  torch::nn::Linear fc1, fc2, fc3, fc4, fc5;
};
TORCH_MODULE(Vae);

}  // namespace

void train_vae(Run& run) {
  Vae model;
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
  torch::Tensor images = torch::rand({3 * 256, 784});

  auto budget = run.budget(model->parameters());
  for (int i = 0; i < 6; ++i) {
    auto step = budget.step();
    torch::Tensor x = images.slice(0, i % 3 * 256, (i % 3 + 1) * 256);
    auto [reconstruction, mu, log_var] = model->forward(x);
    torch::Tensor reconstruction_loss = torch::nn::functional::binary_cross_entropy(
        reconstruction, x, torch::nn::functional::BinaryCrossEntropyFuncOptions().reduction(torch::kSum));
    torch::Tensor divergence = -0.5 * torch::sum(1 + log_var - mu.pow(2) - log_var.exp());
    torch::Tensor loss = reconstruction_loss + divergence;
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    run.loss(loss);
  }
  run.keep("model", *model);
}

}  // namespace encore::test
