// Gradients accumulated over micro-batches, clipped, with a schedule of the learning rate and validation in the loop.
#include "programs/programs.h"

namespace encore::test {
namespace {

struct MlpImpl : torch::nn::Module {
  MlpImpl() {
    for (int i = 0; i < 6; ++i) {
      layers->push_back(torch::nn::Linear(96, 96));
      layers->push_back(torch::nn::BatchNorm1d(96));
      layers->push_back(torch::nn::GELU());
      layers->push_back(torch::nn::Dropout(0.1));
    }
    register_module("layers", layers);
    head = register_module("head", torch::nn::Linear(96, 10));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head->forward(layers->forward(x)); }
  torch::nn::Sequential layers;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Mlp);

constexpr int64_t kRows = 768;

struct Task {
  explicit Task(int64_t rows)
      : validation_inputs(torch::randn({rows, 96})), validation_labels(torch::randint(10, {rows}, torch::kLong)) {}

  torch::Tensor inputs = torch::randn({4, kRows, 96});
  torch::Tensor labels = torch::randint(10, {4, kRows}, torch::kLong);
  torch::Tensor validation_inputs;
  torch::Tensor validation_labels;
};

torch::Tensor validate(Mlp& model, const Task& task) {
  torch::NoGradGuard no_grad;
  model->eval();
  torch::Tensor inputs = (task.validation_inputs - task.validation_inputs.mean()) / task.validation_inputs.std();
  torch::Tensor loss = torch::nn::functional::cross_entropy(model->forward(inputs), task.validation_labels);
  model->train();
  return loss;
}

}  // namespace

void train_micro_batches(Run& run) {
  Mlp model;
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  torch::optim::StepLR schedule(optimizer, 2, 0.5);
  Task task(8192);  // validated at once, which takes more than training

  auto budget = run.budget(model->parameters());
  for (int i = 0; i < 6; ++i) {
    auto step = budget.step();
    optimizer.zero_grad();
    for (int micro = 0; micro < 2; ++micro) {
      torch::Tensor output = model->forward(task.inputs[(2 * i + micro) % 4]);
      torch::Tensor loss = torch::nn::functional::cross_entropy(output, task.labels[(2 * i + micro) % 4]) / 2;
      loss.backward();
      run.loss(loss);
    }
    torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    schedule.step();
    if (i % 2 == 0) {
      run.loss(validate(model, task));
    }
  }
  run.keep("model", *model);
}

void train_after_evaluation(Run& run) {
  Mlp model;
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
  Task task(kRows);

  auto budget = run.budget(model->parameters());
  for (int i = 0; i < 6; ++i) {
    {
      auto step = budget.step();
      run.loss(validate(model, task));
    }
    auto step = budget.step();
    optimizer.zero_grad();
    torch::Tensor loss = torch::nn::functional::cross_entropy(model->forward(task.inputs[i % 4]), task.labels[i % 4]);
    loss.backward();
    optimizer.step();
    run.loss(loss);
  }
  run.keep("model", *model);
}

}  // namespace encore::test
