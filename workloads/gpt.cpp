// A GPT in the usual form.
#include "workloads/gpt.h"

namespace workloads {

BlockImpl::BlockImpl(const GptConfig& config) : heads(config.heads), dropout(config.dropout) {
  const int64_t d = config.width;
  norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({d})));
  query = register_module("query", torch::nn::Linear(d, d));
  key = register_module("key", torch::nn::Linear(d, d));
  value = register_module("value", torch::nn::Linear(d, d));
  project = register_module("project", torch::nn::Linear(d, d));
  norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({d})));
  expand = register_module("expand", torch::nn::Linear(d, 4 * d));
  contract = register_module("contract", torch::nn::Linear(4 * d, d));
  mask = register_buffer("mask", torch::ones({config.tokens, config.tokens}).triu(1).to(torch::kBool));
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x) {
  const int64_t batch = x.size(0);
  const int64_t tokens = x.size(1);
  const int64_t width = x.size(2);
  const auto split = [&](const torch::Tensor& t) {
    return t.view({batch, tokens, heads, width / heads}).transpose(1, 2);
  };
  const torch::Tensor h = norm1(x);
  const torch::Tensor q = split(query(h));
  const torch::Tensor k = split(key(h));
  const torch::Tensor v = split(value(h));
  torch::Tensor scores = q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(width / heads));
  const torch::Tensor later = tokens == mask.size(0) ? mask : mask.narrow(0, 0, tokens).narrow(1, 0, tokens);
  scores = scores.masked_fill(later, -1e9).softmax(-1);
  scores = torch::dropout(scores, dropout, is_training());
  const torch::Tensor mixed = scores.matmul(v).transpose(1, 2).contiguous().view({batch, tokens, width});
  const torch::Tensor y = x + torch::dropout(project(mixed), dropout, is_training());
  return y + torch::dropout(contract(torch::gelu(expand(norm2(y)))), dropout, is_training());
}

GptImpl::GptImpl(const GptConfig& config) : dropout(config.dropout) {
  token = register_module("token", torch::nn::Embedding(config.vocabulary, config.width));
  position = register_module("position", torch::nn::Embedding(config.tokens, config.width));
  for (int64_t i = 0; i < config.layers; ++i) {
    blocks.push_back(register_module("block" + std::to_string(i), Block(config)));
  }
  norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.width})));
  head = register_module("head", torch::nn::Linear(config.width, config.vocabulary));
}

torch::Tensor GptImpl::forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                               const std::function<torch::Tensor(Block&, const torch::Tensor&)>& run_block) {
  torch::Tensor x = token(tokens) + position(torch::arange(tokens.size(1)));
  x = torch::dropout(x, dropout, is_training());
  for (Block& block : blocks) {
    x = run_block ? run_block(block, x) : block(x);
  }
  const torch::Tensor logits = head(norm(x));
  return torch::cross_entropy_loss(logits.flatten(0, 1), targets.flatten());
}

std::pair<torch::Tensor, torch::Tensor> make_batch(const GptConfig& config, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  const torch::Tensor ids = torch::randint(config.vocabulary, {config.batch, config.tokens + 1}, generator);
  return {ids.narrow(1, 0, config.tokens).contiguous(), ids.narrow(1, 1, config.tokens).contiguous()};
}

}  // namespace workloads
