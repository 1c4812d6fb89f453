// Writes training steps as the budget records them, for the planner's tables: FOLDER/NAME.json for each of the
// workloads at their real size and for the peer's models. Usage: bench_plan_record_steps FOLDER [NAME ...]
#include <algorithm>
#include <fstream>
#include <functional>
#include <iostream>

#include <torch/nn/functional/loss.h>
#include <torch/nn/functional/pooling.h>

#include <encore/encore.h>

#include "workloads/gpt.h"
#include "workloads/resnet.h"
#include "workloads/workload.h"

namespace {

namespace nn = torch::nn;

struct Recorded {
  std::string name;
  std::function<std::function<torch::Tensor()>()> make;  // The model; then the loss of one step.
};

template <class Model, class Config>
std::function<torch::Tensor()> step_of(const Config& config) {
  Model model(config);
  const auto batch = workloads::make_batch(config, 1);
  return [model, batch]() mutable { return model->forward(batch.first, batch.second); };
}

/// A ResNet-18's block: two convolutions of 3 x 3 beside a shortcut.
struct BasicBlockImpl : nn::Module {
  BasicBlockImpl(int64_t in, int64_t out, int64_t stride)
      : first(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)),
        second(nn::Conv2dOptions(out, out, 3).padding(1).bias(false)),
        norm1(out),
        norm2(out) {
    if (stride != 1) {
      shortcut = nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false));
      shortcut_norm = nn::BatchNorm2d(out);
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = norm2(second(torch::relu(norm1(first(x)))));
    return torch::relu(y + (shortcut ? shortcut_norm(shortcut(x)) : x));
  }
  nn::Conv2d first, second, shortcut{nullptr};
  nn::BatchNorm2d norm1, norm2, shortcut_norm{nullptr};
};
TORCH_MODULE(BasicBlock);

std::function<torch::Tensor()> resnet18_step() {
  nn::Conv2d stem(nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false));
  nn::BatchNorm2d norm(64);
  std::vector<BasicBlock> blocks;
  int64_t channels = 64;
  for (const int64_t out : {64, 128, 256, 512}) {
    for (int k = 0; k < 2; ++k) {
      blocks.emplace_back(channels, out, out != channels ? 2 : 1);
      channels = out;
    }
  }
  nn::Linear head(channels, 1000);
  const torch::Tensor images = torch::randn({4, 3, 128, 128});
  const torch::Tensor classes = torch::randint(1000, {4}, torch::kLong);
  return [=]() mutable {
    const auto pool = nn::functional::MaxPool2dFuncOptions(3).stride(2).padding(1);
    torch::Tensor x = nn::functional::max_pool2d(torch::relu(norm(stem(images))), pool);
    for (BasicBlock& block : blocks) {
      x = block(x);
    }
    return nn::functional::cross_entropy(head(x.mean({2, 3})), classes);
  };
}

std::vector<Recorded> all() {
  std::vector<Recorded> all;
  for (const std::string& name : workloads::workload_names()) {
    all.push_back({name, [name] {
                     const workloads::Workload workload = workloads::make_workload(name, workloads::Size::kReal, 1);
                     return [workload] { return workload.loss(0); };
                   }});
  }
  all.push_back({"gpt4", [] { return step_of<workloads::Gpt>(workloads::GptConfig{4, 256, 4, 128, 4, 1000, 0.0}); }});
  all.push_back({"resnet18", resnet18_step});
  all.push_back({"resnet50", [] {
                   return step_of<workloads::ResNet>(workloads::ResNetConfig{{3, 4, 6, 3}, 64, 128, 4, 1000});
                 }});
  return all;
}

// Within 90% of the plain peak, so that it is planned.
bool record(const Recorded& recorded, const std::string& folder) {
  torch::manual_seed(1);
  const auto loss = recorded.make();
  loss().backward();  // The gradients are there before.
  encore::MemoryBudget budget = encore::MemoryBudget::fraction(0.9);
  for (int step = 0; step < 4 && budget.graph_json().empty(); ++step) {
    const auto scope = budget.step();
    loss().backward();
  }
  std::ofstream(folder + "/" + recorded.name + ".json") << budget.graph_json();
  return !budget.graph_json().empty();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: bench_plan_record_steps FOLDER [NAME ...]\n";
    return 2;
  }
  encore::live_tensor_bytes();  // counts from here on
  const std::vector<std::string> wanted(argv + 2, argv + argc);
  for (const Recorded& recorded : all()) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), recorded.name) == wanted.end()) {
      continue;
    }
    if (!record(recorded, argv[1])) {
      std::cerr << "bench_plan_record_steps: no step of " << recorded.name << " was planned\n";
      return 1;
    }
    std::cout << recorded.name << std::endl;
  }
  return 0;
}
