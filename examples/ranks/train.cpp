// `make demo-ranks`: a GPT on several ranks, each within its budget, that survives the loss of a rank.
//
// train [--steps N] [--budget BYTES] [--save FILE] [--report FILE] [--kill STEP] [--layers N] [--timeout SECONDS]
// Resumes from FILE if it is there. --kill: rank 1 kills itself at that step, the first time that the launcher starts
// it.
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>

#include <torch/torch.h>

#include <encore/dist.h>
#include <encore/encore.h>

#include "workloads/gpt.h"

namespace {

using Options = std::map<std::string, std::string>;

Options read_options(int count, char** words) {
  Options options = {{"--steps", "30"}, {"--budget", "96MiB"}, {"--save", ""},     {"--report", ""},
                     {"--kill", "-1"},  {"--layers", "4"},     {"--timeout", "20"}};
  for (int i = 1; i < count; i += 2) {
    if (options.count(words[i]) == 0 || i + 1 == count) {
      throw encore::InvalidArgument("train: '" + std::string(words[i]) + "' is no option, or has no value");
    }
    options[words[i]] = words[i + 1];
  }
  return options;
}

/// Stands for all bits of all parameters.
uint64_t hash_of(torch::nn::Module& model) {
  uint64_t hash = 14695981039346656037ULL;
  for (const at::Tensor& parameter : model.parameters()) {
    const auto* bytes = static_cast<const unsigned char*>(parameter.data_ptr());
    for (size_t i = 0; i < parameter.nbytes(); ++i) {
      hash = (hash ^ bytes[i]) * 1099511628211ULL;
    }
  }
  return hash;
}

/// The step to go on from: 0 if nothing was saved.
int resume(encore::ShardedOptimizer& optimizer, const std::string& path) {
  if (path.empty()) {
    return 0;
  }
  try {
    return std::stoi(optimizer.load(path));
  } catch (const encore::InvalidArgument&) {
    return 0;
  }
}

void train(const Options& options) {
  encore::GroupOptions group_options;
  group_options.timeout = std::chrono::seconds(std::stoi(options.at("--timeout")));
  const auto group = encore::RankGroup::from_environment(group_options);
  const bool speaks = group.rank() == 0;

  workloads::GptConfig config;
  config.layers = std::stoi(options.at("--layers"));
  config.width = 192;
  config.tokens = 128;
  config.batch = 4;
  torch::manual_seed(1);
  workloads::Gpt model(config);
  encore::DataParallel parallel(*model, group);
  encore::ShardedOptimizer optimizer(parallel, [](std::vector<at::Tensor> parameter) {
    return std::make_unique<torch::optim::Adam>(parameter, torch::optim::AdamOptions(1e-3));
  });
  encore::MemoryBudget budget(options.at("--budget"));
  const int steps = std::stoi(options.at("--steps"));
  const int first = resume(optimizer, options.at("--save"));
  if (speaks && first > 0) {
    std::cout << "resumed from step " << first << std::endl;
  }
  const char* restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  const bool first_start = restarts == nullptr || std::string(restarts) == "0";
  for (int i = first; i < steps; ++i) {
    if (i == std::stoi(options.at("--kill")) && group.rank() == 1 && first_start) {
      std::raise(SIGKILL);
    }
    // Numbers by step and rank, so that a run which was resumed draws the same.
    const auto seed = static_cast<uint64_t>(1000 * i + group.rank());
    torch::manual_seed(seed);
    const auto [tokens, targets] = workloads::make_batch(config, seed);
    auto step = parallel.step(budget);
    const at::Tensor loss = model->forward(tokens, targets);
    step.set_loss(loss.item<double>());
    loss.backward();
    optimizer.step();
    if (!options.at("--save").empty() && (i + 1) % 5 == 0) {
      optimizer.save(options.at("--save"), std::to_string(i + 1));
    }
    if (speaks && (i + 1) % 5 == 0) {
      std::cout << "step " << i + 1 << ": loss " << loss.item<double>() << ", peak " << budget.report().peak_bytes
                << std::endl;
    }
  }
  const auto report = parallel.report();
  if (speaks) {
    std::cout << report.text() << "final bits " << std::hex << hash_of(*model) << std::endl;
    if (!options.at("--report").empty()) {
      std::ofstream(options.at("--report")) << report.html("GPT on " + std::to_string(group.size()) + " ranks");
    }
  }
}

}  // namespace

int main(int count, char** words) {
  try {
    train(read_options(count, words));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    std::_Exit(1);  // the launcher starts all ranks again; no connection is worth waiting for
  }
}
