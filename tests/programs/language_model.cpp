// A recurrent language model with truncated backpropagation: the state is detached and carried from step to step.
#include "programs/programs.h"

namespace encore::test {
namespace {

constexpr int64_t kVocabulary = 400;
constexpr int64_t kHidden = 96;
constexpr int64_t kBatch = 20;
constexpr int64_t kLength = 30;

struct LanguageModelImpl : torch::nn::Module {
  LanguageModelImpl()
      : embed(kVocabulary, 64),
        lstm(torch::nn::LSTMOptions(64, kHidden).num_layers(1).batch_first(true)),
        linear(kHidden, kVocabulary) {
    register_module("embed", embed);
    register_module("lstm", lstm);
    register_module("linear", linear);
  }
  using State = std::tuple<torch::Tensor, torch::Tensor>;
  std::tuple<torch::Tensor, State> forward(const torch::Tensor& x, const State& state) {
    auto [output, next] = lstm->forward(embed->forward(x), state);
    output = output.reshape({-1, output.size(2)});
    return {linear->forward(output), next};
  }
  torch::nn::Embedding embed;
  torch::nn::LSTM lstm;
  torch::nn::Linear linear;
};
TORCH_MODULE(LanguageModel);

}  // namespace

void train_language_model(Run& run) {
  LanguageModel model;
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(2e-3));
  torch::Tensor ids = torch::randint(kVocabulary, {kBatch, 6 * kLength + 1}, torch::kLong);

  auto budget = run.budget(model->parameters());
  torch::Tensor h = torch::zeros({1, kBatch, kHidden});
  torch::Tensor c = torch::zeros({1, kBatch, kHidden});
  for (int64_t i = 0; i + kLength < ids.size(1); i += kLength) {
    auto step = budget.step();
    torch::Tensor input = ids.slice(1, i, i + kLength);
    torch::Tensor target = ids.slice(1, i + 1, i + 1 + kLength).reshape(-1);
    auto [output, state] = model->forward(input, {h.detach(), c.detach()});
    std::tie(h, c) = state;
    torch::Tensor loss = torch::nn::functional::cross_entropy(output, target);
    model->zero_grad();
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 0.5);
    optimizer.step();
    run.loss(loss);
  }
  run.keep("model", *model);
  run.keep("h", h);
  run.keep("c", c);
}

}  // namespace encore::test
