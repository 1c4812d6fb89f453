// The models that the demo trains, each with its data.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "options.h"

namespace demo {

/// How the blocks of a model are called.
enum class Blocks {
  kPlainly,
  kCheckpointed,  ///< as with Python's torch.utils.checkpoint: one checkpoint around each block
};

class Model {
 public:
  virtual ~Model() = default;
  /// Of the batch that belongs to `step`. Nothing in here knows of budgets.
  virtual torch::Tensor loss(int64_t step, Blocks blocks) = 0;
  virtual const torch::nn::Module& module() const = 0;
};

/// A kind of model: makes models that share their data.
struct Subject {
  std::string name;
  std::string description;
  /// A new model, with parameters drawn from LibTorch's generator.
  std::function<std::unique_ptr<Model>()> make;
};

/// `name` is "gpt" or "cnn". Throws encore::InvalidArgument if its data can't be read.
Subject make_subject(const std::string& name, const Options& options);

}  // namespace demo
