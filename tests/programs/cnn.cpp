// A convolutional network on small images, which two workers of a DataLoader bring. The last batch of an epoch is
// small.
#include "programs/programs.h"

namespace encore::test {
namespace {

/// Images of ten kinds: a bar whose place and brightness follow from the index.
class Bars : public torch::data::Dataset<Bars> {
 public:
  torch::data::Example<> get(size_t index) override {
    const auto label = static_cast<int64_t>(index % 10);
    torch::Tensor image = torch::zeros({1, 28, 28});
    image.slice(1, 2 * label, 2 * label + 4).fill_(0.5 + 0.001 * static_cast<double>(index));
    return {image, torch::tensor(label)};
  }
  torch::optional<size_t> size() const override { return 224; }
};

struct NetImpl : torch::nn::Module {
  NetImpl()
      : conv1(torch::nn::Conv2dOptions(1, 16, 5)),
        conv2(torch::nn::Conv2dOptions(16, 32, 5)),
        fc1(512, 64),
        fc2(64, 10) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv2_drop", conv2_drop);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1->forward(x), 2));
    x = torch::relu(torch::max_pool2d(conv2_drop->forward(conv2->forward(x)), 2));
    x = x.view({-1, 512});
    x = torch::relu(fc1->forward(x));
    x = torch::dropout(x, 0.5, is_training());
    return torch::log_softmax(fc2->forward(x), 1);
  }
  torch::nn::Conv2d conv1, conv2;
  torch::nn::Dropout2d conv2_drop;
  torch::nn::Linear fc1, fc2;
};
TORCH_MODULE(Net);

}  // namespace

void train_cnn(Run& run) {
  Net model;
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.5));
  auto loader = torch::data::make_data_loader(Bars().map(torch::data::transforms::Stack<>()),
                                              torch::data::DataLoaderOptions().batch_size(64).workers(2));

  auto budget = run.budget(model->parameters());
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto& batch : *loader) {
      auto step = budget.step();
      optimizer.zero_grad();
      torch::Tensor output = model->forward(batch.data);
      torch::Tensor loss = torch::nll_loss(output, batch.target);
      loss.backward();
      optimizer.step();
      run.loss(loss);
    }
  }
  run.keep("model", *model);
}

}  // namespace encore::test
