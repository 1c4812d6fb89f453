// Serves training steps of the GPT, one for each line on standard input that names a way of running it.
//
// Answers with one line of JSON: seconds, peak bytes above what rests, and a hash of all gradients. The driver, run.py,
// interleaves these steps with those of Python's torch.utils.checkpoint in a process of its own.
#include <chrono>
#include <iostream>
#include <string>

#include <xxhash.h>

#include <encore/encore.h>

#include "workloads/gpt.h"

namespace {

using workloads::Block;

using RunBlock = std::function<torch::Tensor(Block&, const torch::Tensor&)>;

uint64_t hash_of(const torch::Tensor& tensor) {
  const torch::Tensor dense = tensor.contiguous();
  return XXH3_64bits(dense.data_ptr(), dense.nbytes());
}

struct Step {
  double seconds = 0;
  int64_t peak_bytes = 0;
  uint64_t hash = 0;
  int64_t ops_replayed = 0;
  double replay_seconds = 0;
};

Step run_step(workloads::Gpt& model, const torch::Tensor& tokens, const torch::Tensor& targets,
              const std::string& system) {
  for (auto& parameter : model->parameters()) {
    parameter.mutable_grad().zero_();
  }
  torch::manual_seed(3);
  const encore::CheckpointProfiler profiler;
  const encore::MemoryScope memory;
  const auto start = std::chrono::steady_clock::now();
  {
    std::optional<encore::Scope> scope;
    RunBlock run_block;
    if (system == "keep_all") {
      scope.emplace(encore::keep_all());
    } else if (system == "per_block") {
      run_block = [](Block& block, const torch::Tensor& x) { return encore::checkpoint(block, x); };
    } else if (system == "keep_matmuls") {
      encore::CheckpointOptions options;
      options.policy = encore::keep_matmuls();
      run_block = [options](Block& block, const torch::Tensor& x) { return encore::checkpoint(options, block, x); };
    } else if (system == "rerun") {
      encore::CheckpointOptions options;
      options.recompute = encore::Recompute::kRerun;
      run_block = [options](Block& block, const torch::Tensor& x) { return encore::checkpoint(options, block, x); };
    }
    model->forward(tokens, targets, run_block).backward();
  }
  Step step;
  step.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  step.peak_bytes = memory.peak_growth_bytes();
  const encore::ProfilerReport report = profiler.report();
  step.ops_replayed = report.ops_replayed;
  step.replay_seconds = static_cast<double>(report.replay_ns) * 1e-9;
  for (const auto& parameter : model->parameters()) {
    step.hash = step.hash * 31 + hash_of(parameter.grad());
  }
  return step;
}

}  // namespace

int main(int argc, char** argv) {
  workloads::GptConfig config;
  std::optional<encore::BlockReuse> reuse;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--small") {
      config.layers = 2;
      config.batch = 2;
    } else if (std::string(argv[i]) == "--reuse") {
      reuse.emplace();
    }
  }
  encore::live_tensor_bytes();  // counts from here on
  torch::manual_seed(11);
  workloads::Gpt model(config);
  for (auto& parameter : model->parameters()) {
    parameter.mutable_grad() = torch::zeros_like(parameter);
  }
  const auto [tokens, targets] = workloads::make_batch(config, 5);
  for (std::string system; std::getline(std::cin, system);) {
    const Step step = run_step(model, tokens, targets, system);
    std::cout << "{\"seconds\": " << step.seconds << ", \"peak_bytes\": " << step.peak_bytes << ", \"hash\": \""
              << step.hash << "\", \"ops_replayed\": " << step.ops_replayed
              << ", \"replay_seconds\": " << step.replay_seconds << "}" << std::endl;
  }
}
