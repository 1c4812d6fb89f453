// A recursive network over binary trees, for tests and benchmarks: no two steps record the same ops.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

namespace workloads {

struct TreeConfig {
  int64_t leaves = 256;  // at most; a tree has at least half of them
  int64_t hidden = 512;
  int64_t batch = 64;  // token sequences that share the tree
  int64_t vocabulary = 1000;
  int64_t classes = 5;
};

/// A binary tree whose leaves are numbered from the left.
struct Tree {
  int64_t leaf = 0;                   // its number, if it is one
  std::unique_ptr<Tree> left, right;  // both or none
};

/// A tree of random shape and number of leaves, made from a seed.
Tree make_tree(const TreeConfig& config, uint64_t seed);
int64_t count_leaves(const Tree& tree);
/// The tree in brackets: "(0 (1 2))".
std::string to_string(const Tree& tree);

struct TreeNetImpl : torch::nn::Module {
  explicit TreeNetImpl(const TreeConfig& config);
  /// The loss of classifying trees over `tokens`, of {leaves, batch}, as `targets`. Leaves are embeddings; a node is
  /// tanh of a linear function of its two children. Tokens beyond the tree's leaves are not read.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& targets, const Tree& tree);

  torch::nn::Embedding token{nullptr};
  torch::nn::Linear join{nullptr}, head{nullptr};

 private:
  torch::Tensor state_of(const Tree& tree, const std::vector<torch::Tensor>& leaves);
};
TORCH_MODULE(TreeNet);

/// Token ids and the classes of their trees, made from a seed.
std::pair<torch::Tensor, torch::Tensor> make_batch(const TreeConfig& config, uint64_t seed);

}  // namespace workloads
