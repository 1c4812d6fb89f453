// Trains a small GPT twice from the same seed, plainly and with a checkpoint a block, and compares the two.
#include <chrono>
#include <cstring>
#include <iomanip>
#include <iostream>

#include <encore/encore.h>

#include "workloads/gpt.h"

namespace {

struct Run {
  std::vector<float> losses;
  std::vector<torch::Tensor> gradients;
  int64_t peak_bytes = 0;
  double seconds = 0;
};

Run train(const workloads::GptConfig& config, int steps, bool checkpointed) {
  torch::manual_seed(1);
  workloads::Gpt model(config);
  torch::optim::Adam optimizer(model->parameters(), 3e-4);
  Run run;
  const encore::MemoryScope memory;
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    const auto [tokens, targets] = workloads::make_batch(config, static_cast<uint64_t>(step));
    optimizer.zero_grad();
    const torch::Tensor loss = model->forward(tokens, targets, [&](workloads::Block& block, const torch::Tensor& x) {
      return checkpointed ? encore::checkpoint(block, x) : block(x);
    });
    loss.backward();
    optimizer.step();
    run.losses.push_back(loss.item<float>());
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.peak_bytes = memory.peak_growth_bytes();
  for (const auto& parameter : model->parameters()) {
    run.gradients.push_back(parameter.grad().clone());
  }
  return run;
}

bool same_bits(const Run& a, const Run& b) {
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    if (std::memcmp(a.gradients[i].data_ptr(), b.gradients[i].data_ptr(), a.gradients[i].nbytes()) != 0) {
      return false;
    }
  }
  return a.losses == b.losses;
}

void print(const char* name, const Run& run) {
  std::cout << std::left << std::setw(24) << name << std::right << std::setw(10) << std::setprecision(5)
            << run.losses.front() << std::setw(10) << run.losses.back() << std::setw(14)
            << encore::format_bytes(run.peak_bytes) << std::setw(9) << std::fixed << std::setprecision(2) << run.seconds
            << " s\n"
            << std::defaultfloat;
}

}  // namespace

int main(int argc, char** argv) {
  workloads::GptConfig config;
  config.layers = 6;
  config.width = 192;
  config.tokens = 128;
  const int steps = argc > 1 ? std::atoi(argv[1]) : 5;
  if (steps < 1) {
    std::cerr << "usage: train_twice [STEPS]\n";
    return 2;
  }
  std::cout << "A GPT of " << config.layers << " layers, " << steps << " steps of Adam, from one seed\n\n"
            << std::left << std::setw(24) << "" << std::right << std::setw(10) << "loss" << std::setw(10) << "at end"
            << std::setw(14) << "peak" << std::setw(11) << "time\n";
  const Run plain = train(config, steps, false);
  print("plain", plain);
  const Run ours = train(config, steps, true);
  print("a checkpoint a block", ours);
  const bool same = same_bits(plain, ours);
  std::cout << "\nAll losses and gradients are " << (same ? "" : "NOT ") << "bit-identical; the peak is "
            << std::setprecision(3)
            << 100.0 * static_cast<double>(ours.peak_bytes) / static_cast<double>(plain.peak_bytes)
            << "% of the plain one.\n";
  return same ? 0 : 1;
}
