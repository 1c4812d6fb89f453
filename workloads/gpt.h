// A GPT in the usual form, for tests, examples and benchmarks.
#pragma once

#include <torch/torch.h>

#include <encore/checkpoint.h>

namespace workloads {

struct GptConfig {
  int64_t layers = 8;
  int64_t width = 384;
  int64_t heads = 6;
  int64_t tokens = 256;
  int64_t batch = 8;
  int64_t vocabulary = 96;
  double dropout = 0.1;
};

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const GptConfig& config);
  torch::Tensor forward(const torch::Tensor& x);

  int64_t heads;
  double dropout;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear query{nullptr}, key{nullptr}, value{nullptr}, project{nullptr}, expand{nullptr}, contract{nullptr};
  torch::Tensor mask;  // true above the diagonal: what a token may not see
};
TORCH_MODULE(Block);

struct GptImpl : torch::nn::Module {
  explicit GptImpl(const GptConfig& config);

  /// The loss of predicting `targets`; `run_block` says how a block is called, plainly if it is empty.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                        const std::function<torch::Tensor(Block&, const torch::Tensor&)>& run_block = {});

  double dropout;
  torch::nn::Embedding token{nullptr}, position{nullptr};
  std::vector<Block> blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Gpt);

/// Token ids and their successors, made from a seed.
std::pair<torch::Tensor, torch::Tensor> make_batch(const GptConfig& config, uint64_t seed);

}  // namespace workloads
