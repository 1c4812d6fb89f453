// Serves training steps of one workload: a line on standard input names the step's number and a way of running it.
//
//   step_server WORKLOAD small|real
//   3 plain
//   3 budget 500000000
//
// Answers each with one line of JSON. A step is forward, backward and Adam with a learning rate of 0, so that every way
// of running step 3 must give the same bits. The driver interleaves the steps of several such processes.
#include <chrono>
#include <iostream>
#include <map>
#include <sstream>

#include <torch/optim/adam.h>
#include <xxhash.h>

#include <encore/encore.h>

#include "workloads/workload.h"

namespace {

uint64_t hash_of(uint64_t hash, const torch::Tensor& tensor) {
  const torch::Tensor dense = tensor.contiguous();
  return XXH3_64bits_withSeed(dense.data_ptr(), dense.nbytes(), hash);
}

class Server {
 public:
  Server(const std::string& name, workloads::Size size)
      : workload_(workloads::make_workload(name, size, 1)),
        adam_(workload_.parameters, torch::optim::AdamOptions(0.0)) {}

  std::string answer(int64_t step, const std::string& way, int64_t limit_bytes) {
    std::ostringstream out;
    const encore::MemoryScope memory;
    torch::Tensor loss;
    encore::StepReport report;
    std::string refused;
    const auto start = std::chrono::steady_clock::now();
    if (way == "plain") {
      loss = train(step);
    } else if (way == "keep_all") {
      const encore::Scope scope(encore::keep_all());
      loss = train(step);
    } else {
      encore::MemoryBudget& budget = budgets_.try_emplace(limit_bytes, limit_bytes).first->second;
      try {
        const auto scope = budget.step();
        loss = train(step);
      } catch (const encore::BudgetError& error) {
        refused = error.what();
        out << R"({"least_bytes": )" << error.figures().least_bytes << ", ";
      }
      report = budget.report();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!refused.empty()) {
      out << R"("refused": ")" << refused << "\"}";
      return out.str();
    }
    uint64_t hash = hash_of(0, loss);
    for (const torch::Tensor& parameter : workload_.parameters) {
      hash = hash_of(hash, parameter.grad());
    }
    const char* modes[] = {"learning", "online", "planned"};
    out << R"({"seconds": )" << seconds << R"(, "resting_bytes": )" << memory.start_bytes() << R"(, "peak_bytes": )"
        << memory.peak_bytes() << R"(, "hash": ")" << hash << R"(", "mode": ")"
        << (way == "budget" ? modes[static_cast<int>(report.mode)] : way.c_str()) << R"(", "predicted_peak_bytes": )"
        << report.predicted_peak_bytes << R"(, "plain_peak_bytes": )" << report.plain_peak_bytes
        << R"(, "ops_replayed": )" << report.ops_replayed << R"(, "replay_seconds": )" << report.replay_seconds
        << R"(, "planning_seconds": )" << report.planning_seconds << R"(, "eviction_seconds": )"
        << report.eviction_seconds << R"(, "evictions": )" << report.evictions << R"(, "predicted_seconds": )"
        << report.predicted_seconds << R"(, "plain_seconds": )" << report.plain_seconds << R"(, "held_bytes": )"
        << encore::BlockReuse::held_bytes() << R"(, "note": ")" << report.note << "\"}";
    return out.str();
  }

 private:
  torch::Tensor train(int64_t step) {
    adam_.zero_grad();
    torch::Tensor loss = workload_.loss(step);
    loss.backward();
    adam_.step();
    return loss.detach();
  }

  workloads::Workload workload_;
  torch::optim::Adam adam_;
  std::map<int64_t, encore::MemoryBudget> budgets_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: step_server WORKLOAD small|real\n";
    return 2;
  }
  encore::live_tensor_bytes();  // counts from here on
  Server server(argv[1], argv[2] == std::string("real") ? workloads::Size::kReal : workloads::Size::kSmall);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    int64_t step = 0;
    int64_t limit_bytes = 0;
    std::string way;
    words >> step >> way >> limit_bytes;
    std::cout << server.answer(step, way, limit_bytes) << std::endl;
  }
}
