// One rank of the benchmark: a GPT's step with gradients reduced inside backward (plainly, and with a checkpoint a
// block), after it, and not at all, in turn.
//
// bench_dist ROUNDS LAYERS BUCKET_KIB; prints for rank 0 one line of JSON.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <encore/dist.h>
#include <encore/encore.h>

#include "workloads/gpt.h"

namespace {

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The loop that people write: one sum a parameter, when backward has ended.
void reduce_after(const encore::RankGroup& group, torch::nn::Module& model) {
  for (const at::Tensor& parameter : model.parameters()) {
    std::vector<at::Tensor> grad{parameter.grad().mul_(1. / group.size())};
    group.process_group()->allreduce(grad)->wait();
  }
}

torch::Tensor in_a_checkpoint(workloads::Block& block, const torch::Tensor& x) {
  return encore::checkpoint([&block](const torch::Tensor& input) { return block(input); }, x);
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) {
    std::cerr << "bench_dist ROUNDS LAYERS BUCKET_KIB" << std::endl;
    return 2;
  }
  const int rounds = std::atoi(words[1]);
  at::set_num_threads(1);
  const auto group = encore::RankGroup::from_environment();
  workloads::GptConfig config;
  config.layers = std::atoi(words[2]);
  config.width = 256;
  config.heads = 4;
  config.tokens = 64;
  config.batch = 2;
  torch::manual_seed(1);
  workloads::Gpt model(config);
  encore::DataParallelOptions options;
  options.bucket_bytes = int64_t{1024} * std::atoi(words[3]);
  encore::DataParallel parallel(*model, group, options);
  int64_t bytes = 0;
  for (const at::Tensor& parameter : model->parameters()) {
    bytes += static_cast<int64_t>(parameter.nbytes());
  }
  std::map<std::string, std::vector<double>> times;
  for (int round = 0; round < rounds + 2; ++round) {
    for (const std::string way : {"none", "inside", "inside_checkpoint", "after"}) {
      const auto [tokens, targets] = workloads::make_batch(config, static_cast<uint64_t>(round));
      model->zero_grad();
      const double seconds = seconds_of([&, tokens = tokens, targets = targets] {
        if (way == "inside") {
          const auto step = parallel.step();
          model->forward(tokens, targets).backward();
          return;
        }
        if (way == "inside_checkpoint") {
          const auto step = parallel.step();
          model->forward(tokens, targets, in_a_checkpoint).backward();
          return;
        }
        {
          const auto alone = parallel.no_sync();
          model->forward(tokens, targets).backward();
        }
        if (way == "after") {
          reduce_after(group, *model);
        }
      });
      if (round >= 2) {
        times[way].push_back(seconds);
      }
    }
  }
  if (group.rank() == 0) {
    std::cout << "{\"ranks\": " << group.size() << ", \"gradient_bytes\": " << bytes
              << ", \"buckets\": " << parallel.buckets().size();
    for (const auto& [way, list] : times) {
      std::cout << ", \"" << way << "\": " << median(list) << ", \"" << way
                << "_least\": " << *std::min_element(list.begin(), list.end());
    }
    std::cout << "}" << std::endl;
  }
  return 0;
}
