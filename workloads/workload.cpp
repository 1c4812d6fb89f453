// Makes workloads by name and size.
#include "workloads/workload.h"

#include <stdexcept>
#include <utility>

#include "workloads/gpt.h"
#include "workloads/lstm.h"
#include "workloads/resnet.h"
#include "workloads/tree.h"
#include "workloads/unet.h"

namespace workloads {
namespace {

constexpr uint64_t kBatches = 4;

enum class Use : uint64_t { kWeights, kBatch, kStep };

/// Neighbouring seeds and steps must not share their random numbers: SplitMix64 spreads them.
uint64_t derive_seed(uint64_t seed, Use use, uint64_t index) {
  uint64_t x = seed;
  for (const uint64_t part : {static_cast<uint64_t>(use), index}) {
    x += part + 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    x ^= x >> 31U;
  }
  return x;
}

/// `forward(model, inputs, targets, seed)` is the loss of one step; the seed is the step's own.
template <class Model, class Config, class Forward>
Workload assemble(std::string_view name, const Config& config, uint64_t seed, const Forward& forward) {
  torch::manual_seed(derive_seed(seed, Use::kWeights, 0));
  Model model(config);
  std::vector<std::pair<torch::Tensor, torch::Tensor>> batches;
  for (uint64_t i = 0; i < kBatches; ++i) {
    batches.push_back(make_batch(config, derive_seed(seed, Use::kBatch, i)));
  }
  Workload workload;
  workload.name = name;
  workload.module = model.ptr();
  workload.parameters = model->parameters();
  workload.buffers = model->buffers();
  workload.data = [batches, seed](int64_t step) {
    const auto number = static_cast<uint64_t>(step);
    const auto& [inputs, targets] = batches[number % kBatches];
    return StepData{inputs, targets, derive_seed(seed, Use::kStep, number)};
  };
  workload.loss = [model, data = workload.data, forward](int64_t step) mutable {
    const StepData now = data(step);
    torch::manual_seed(now.seed);
    return forward(model, now.inputs, now.targets, now.seed);
  };
  return workload;
}

template <class Model, class Config>
Workload assemble(std::string_view name, const Config& config, uint64_t seed) {
  return assemble<Model>(name, config, seed,
                         [](Model& model, const torch::Tensor& inputs, const torch::Tensor& targets, uint64_t) {
                           return model->forward(inputs, targets);
                         });
}

// The configs' defaults are the real sizes.

Workload make_gpt(Size size, uint64_t seed) {
  GptConfig config;
  if (size == Size::kSmall) {
    config = {/*layers=*/2, /*width=*/32,      /*heads=*/2,    /*tokens=*/16,
              /*batch=*/2,  /*vocabulary=*/32, /*dropout=*/0.1};
  }
  return assemble<Gpt>("gpt", config, seed);
}

Workload make_resnet(Size size, uint64_t seed) {
  ResNetConfig config;
  if (size == Size::kSmall) {
    config = {/*blocks=*/{1, 1, 1, 1}, /*width=*/4, /*image=*/64, /*batch=*/4, /*classes=*/10};
  }
  return assemble<ResNet>("resnet", config, seed);
}

Workload make_unet(Size size, uint64_t seed) {
  UNetConfig config;
  if (size == Size::kSmall) {
    config = {/*levels=*/3, /*base=*/4, /*image=*/64, /*batch=*/4, /*classes=*/2};
  }
  return assemble<UNet>("unet", config, seed);
}

Workload make_lstm(Size size, uint64_t seed) {
  LstmConfig config;
  if (size == Size::kSmall) {
    config = {/*steps=*/20, /*layers=*/1, /*hidden=*/16, /*batch=*/2, /*vocabulary=*/16};
  }
  return assemble<Lstm>("lstm", config, seed);
}

Workload make_tree_net(Size size, uint64_t seed) {
  TreeConfig config;
  if (size == Size::kSmall) {
    config = {/*leaves=*/16, /*hidden=*/8, /*batch=*/2, /*vocabulary=*/16, /*classes=*/3};
  }
  return assemble<TreeNet>(
      "tree", config, seed,
      [config](TreeNet& model, const torch::Tensor& tokens, const torch::Tensor& targets, uint64_t step_seed) {
        return model->forward(tokens, targets, make_tree(config, step_seed));
      });
}

struct Entry {
  std::string_view name;
  Workload (*make)(Size size, uint64_t seed);
};
constexpr Entry kEntries[] = {
    {"gpt", make_gpt}, {"resnet", make_resnet}, {"unet", make_unet}, {"lstm", make_lstm}, {"tree", make_tree_net},
};

}  // namespace

Workload make_workload(std::string_view name, Size size, uint64_t seed) {
  std::string known;
  for (const Entry& entry : kEntries) {
    if (entry.name == name) {
      return entry.make(size, seed);
    }
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw std::invalid_argument("make_workload: no workload is called '" + std::string(name) + "'; there are " + known);
}

const std::vector<std::string>& workload_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Entry& entry : kEntries) {
      all.emplace_back(entry.name);
    }
    return all;
  }();
  return names;
}

}  // namespace workloads
