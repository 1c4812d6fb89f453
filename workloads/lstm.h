// A language model on LibTorch's LSTM, for tests and benchmarks: long, thin, and full of in-place ops.
#pragma once

#include <cstdint>
#include <utility>

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

namespace workloads {

struct LstmConfig {
  int64_t steps = 500;  // of the sequence
  int64_t layers = 1;
  int64_t hidden = 256;  // of the embedding, too
  int64_t batch = 16;
  int64_t vocabulary = 96;
};

struct LstmImpl : torch::nn::Module {
  explicit LstmImpl(const LstmConfig& config);
  /// The loss of predicting `targets` from `tokens`, both of {steps, batch}.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& targets);

  torch::nn::Embedding token{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Lstm);

/// Token ids and their successors, made from a seed.
std::pair<torch::Tensor, torch::Tensor> make_batch(const LstmConfig& config, uint64_t seed);

}  // namespace workloads
