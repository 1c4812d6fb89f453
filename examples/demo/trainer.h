// One training step, the same for every way to train: nothing in it knows of budgets.
#pragma once

#include <memory>

#include <torch/optim/adam.h>

#include "models.h"

namespace demo {

/// A new model and its optimizer. Two of them do the same, bit for bit, if one follows the other.
class Trainer {
 public:
  explicit Trainer(const Subject& subject) : model_(from_seed(subject)), optimizer_(parameters(), kRate) {}

  /// The loss of the step.
  double step(int64_t index, Blocks blocks = Blocks::kPlainly) {
    optimizer_.zero_grad();
    const torch::Tensor loss = model_->loss(index, blocks);
    loss.backward();
    optimizer_.step();
    return loss.item<double>();
  }
  const torch::nn::Module& module() const { return model_->module(); }
  std::vector<torch::Tensor> parameters() const { return module().parameters(); }

 private:
  static constexpr double kRate = 1e-3;
  static constexpr uint64_t kSeed = 1;

  static std::unique_ptr<Model> from_seed(const Subject& subject) {
    torch::manual_seed(kSeed);
    return subject.make();
  }

  std::unique_ptr<Model> model_;
  torch::optim::Adam optimizer_;
};

}  // namespace demo
