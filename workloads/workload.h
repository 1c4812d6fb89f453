// One face for all workloads: tests run them small, benchmarks at their real size.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <torch/nn/module.h>

namespace workloads {

/// What one step is trained on, and the seed of its random ops.
struct StepData {
  torch::Tensor inputs;
  torch::Tensor targets;
  uint64_t seed = 0;
};

/// A model in training mode with its data. Copies share the model.
struct Workload {
  std::string name;
  std::vector<torch::Tensor> parameters;
  std::vector<torch::Tensor> buffers;
  /// The forward of one step, step >= 0. Its batch is one of a few that were made beforehand, step after step. Seeds
  /// the default generator from the workload's seed and the step, so that dropout draws the same in every run.
  std::function<torch::Tensor(int64_t step)> loss;
  std::function<StepData(int64_t step)> data;
  std::shared_ptr<torch::nn::Module> module;
};

enum class Size { kSmall, kReal };

/// Makes the workload of this name: those of one seed are equal bit for bit. Seeds the default generator.
/// Throws std::invalid_argument for a name that is not in workload_names().
Workload make_workload(std::string_view name, Size size, uint64_t seed);

/// "gpt", "resnet", "unet", "lstm", "tree".
const std::vector<std::string>& workload_names();

}  // namespace workloads
