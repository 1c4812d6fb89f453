// A language model on LibTorch's LSTM.
#include "workloads/lstm.h"

#include <tuple>

#include <ATen/CPUGeneratorImpl.h>

namespace workloads {

LstmImpl::LstmImpl(const LstmConfig& config) {
  token = register_module("token", torch::nn::Embedding(config.vocabulary, config.hidden));
  const auto options = torch::nn::LSTMOptions(config.hidden, config.hidden).num_layers(config.layers);
  lstm = register_module("lstm", torch::nn::LSTM(options));
  head = register_module("head", torch::nn::Linear(config.hidden, config.vocabulary));
}

torch::Tensor LstmImpl::forward(const torch::Tensor& tokens, const torch::Tensor& targets) {
  const torch::Tensor states = std::get<0>(lstm(token(tokens)));
  return torch::cross_entropy_loss(head(states).flatten(0, 1), targets.flatten());
}

std::pair<torch::Tensor, torch::Tensor> make_batch(const LstmConfig& config, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  const torch::Tensor ids =
      torch::randint(config.vocabulary, {config.steps + 1, config.batch}, generator, torch::kLong);
  return {ids.narrow(0, 0, config.steps).clone(), ids.narrow(0, 1, config.steps).clone()};
}

}  // namespace workloads
