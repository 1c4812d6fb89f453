// A recursive network over binary trees.
#include "workloads/tree.h"

#include <random>

#include <ATen/CPUGeneratorImpl.h>

namespace workloads {
namespace {

/// From `least` to `most`. The distributions of <random> differ between standard libraries.
int64_t draw(std::mt19937_64& random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
}

Tree tree_over(int64_t first, int64_t count, std::mt19937_64& random) {
  Tree tree;
  tree.leaf = first;
  if (count > 1) {
    const int64_t on_the_left = draw(random, 1, count - 1);
    tree.left = std::make_unique<Tree>(tree_over(first, on_the_left, random));
    tree.right = std::make_unique<Tree>(tree_over(first + on_the_left, count - on_the_left, random));
  }
  return tree;
}

}  // namespace

Tree make_tree(const TreeConfig& config, uint64_t seed) {
  std::mt19937_64 random(seed);
  return tree_over(0, draw(random, (config.leaves + 1) / 2, config.leaves), random);
}

int64_t count_leaves(const Tree& tree) {
  return tree.left ? count_leaves(*tree.left) + count_leaves(*tree.right) : 1;
}

std::string to_string(const Tree& tree) {
  return tree.left ? "(" + to_string(*tree.left) + " " + to_string(*tree.right) + ")" : std::to_string(tree.leaf);
}

TreeNetImpl::TreeNetImpl(const TreeConfig& config) {
  token = register_module("token", torch::nn::Embedding(config.vocabulary, config.hidden));
  join = register_module("join", torch::nn::Linear(2 * config.hidden, config.hidden));
  head = register_module("head", torch::nn::Linear(config.hidden, config.classes));
}

torch::Tensor TreeNetImpl::state_of(const Tree& tree, const std::vector<torch::Tensor>& leaves) {
  if (!tree.left) {
    return leaves[static_cast<size_t>(tree.leaf)];
  }
  const torch::Tensor left = state_of(*tree.left, leaves);
  const torch::Tensor right = state_of(*tree.right, leaves);
  return join(torch::cat({left, right}, 1)).tanh();
}

torch::Tensor TreeNetImpl::forward(const torch::Tensor& tokens, const torch::Tensor& targets, const Tree& tree) {
  const std::vector<torch::Tensor> leaves = token(tokens.narrow(0, 0, count_leaves(tree))).unbind(0);
  return torch::cross_entropy_loss(head(state_of(tree, leaves)), targets);
}

std::pair<torch::Tensor, torch::Tensor> make_batch(const TreeConfig& config, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  const torch::Tensor tokens =
      torch::randint(config.vocabulary, {config.leaves, config.batch}, generator, torch::kLong);
  return {tokens, torch::randint(config.classes, {config.batch}, generator, torch::kLong)};
}

}  // namespace workloads
