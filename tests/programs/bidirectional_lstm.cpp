// A bidirectional LSTM that reads images row by row.
#include "programs/programs.h"

namespace encore::test {
namespace {

struct BiLstmImpl : torch::nn::Module {
  BiLstmImpl() : lstm(torch::nn::LSTMOptions(28, 48).num_layers(2).batch_first(true).bidirectional(true)), fc(96, 10) {
    register_module("lstm", lstm);
    register_module("fc", fc);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor out = std::get<0>(lstm->forward(x));
    torch::Tensor forward_end = out.select(1, -1).slice(1, 0, 48);
    torch::Tensor backward_end = out.select(1, 0).slice(1, 48);
    return fc->forward(torch::cat({forward_end, backward_end}, 1));
  }
  torch::nn::LSTM lstm;
  torch::nn::Linear fc;
};
TORCH_MODULE(BiLstm);

}  // namespace

void train_bidirectional_lstm(Run& run) {
  BiLstm model;
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(3e-3));
  torch::Tensor images = torch::rand({6, 50, 1, 28, 28});
  torch::Tensor labels = torch::randint(10, {6, 50}, torch::kLong);

  auto budget = run.budget(model->parameters());
  for (int i = 0; i < 6; ++i) {
    auto step = budget.step();
    torch::Tensor output = model->forward(images[i].reshape({-1, 28, 28}));
    torch::Tensor loss = torch::nn::functional::cross_entropy(output, labels[i]);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    run.loss(loss);
  }
  run.keep("model", *model);
}

}  // namespace encore::test
