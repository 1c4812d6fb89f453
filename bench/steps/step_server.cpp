// Serves training steps of one workload: a line on standard input names the step's number and a way of running it.
//
//   bench_steps WORKLOAD small|real [--reuse] [--dump FOLDER]
//   3 plain
//   3 keep_all                   (in Scope(keep_all()))
//   3 per_block                  (gpt only: a checkpoint a block; also keep_matmuls, rerun)
//   3 budget 500000000           (a budget of its own for each limit)
//   3 within 500000000           (one budget, whose limit changes)
//   3 least                      (without a limit in the first steps, then within the least that a refusal names)
//   0 run 500000000 FILE         (writes what encore report reads, of the steps within that budget)
//
// Answers each with one line of JSON. --reuse holds freed blocks for reuse in all of them, as a budget does in its own;
// --dump writes the weights, the first steps' data and, after each step, its gradients, for Python's side. A step is
// forward, backward and Adam with a learning rate of 0, so that every way of running step 3 must give the same bits.
// The driver interleaves the steps of several such processes.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include <torch/optim/adam.h>
#include <xxhash.h>

#include <encore/encore.h>

#include "workloads/changing.h"
#include "workloads/gpt.h"
#include "workloads/workload.h"

namespace {

uint64_t hash_of(uint64_t hash, const torch::Tensor& tensor) {
  const torch::Tensor dense = tensor.contiguous();
  return XXH3_64bits_withSeed(dense.data_ptr(), dense.nbytes(), hash);
}

workloads::Workload workload_of(const std::string& name, workloads::Size size) {
  const std::vector<std::string>& changing = workloads::changing_workload_names();
  const bool changes = std::find(changing.begin(), changing.end(), name) != changing.end();
  return changes ? workloads::make_changing_workload(name, size, 1) : workloads::make_workload(name, size, 1);
}

/// Of all threads: on a busy machine it says more than the clock does.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Server {
 public:
  Server(const std::string& name, workloads::Size size)
      : workload_(workload_of(name, size)), adam_(workload_.parameters, torch::optim::AdamOptions(0.0)) {}

  /// Raw numbers of tensors, one after another.
  static void write(const std::string& file, const std::vector<torch::Tensor>& tensors) {
    std::ofstream out(file, std::ios::binary);
    for (const torch::Tensor& tensor : tensors) {
      const torch::Tensor dense = tensor.detach().contiguous();
      out.write(static_cast<const char*>(dense.data_ptr()), static_cast<std::streamsize>(dense.nbytes()));
    }
  }

  void dump(const std::string& folder) {
    folder_ = folder;
    write(folder + "/weights", workload_.parameters);
    std::ofstream seeds(folder + "/seeds");
    for (int64_t step = 0; step < 64; ++step) {
      seeds << workload_.data(step).seed << "\n";
    }
    for (int64_t batch = 0; batch < 4; ++batch) {
      const workloads::StepData data = workload_.data(batch);
      write(folder + "/batch" + std::to_string(batch), {data.inputs, data.targets});
    }
  }

  void write_run(int64_t limit_bytes, const std::string& file) {
    std::ofstream(file) << budgets_.at(limit_bytes).run_json(workload_.name);
  }

  std::string answer(int64_t step, const std::string& way, int64_t limit_bytes) {
    std::ostringstream out;
    const encore::MemoryScope memory;
    torch::Tensor loss;
    encore::StepReport report;
    std::string refused;
    const auto start = std::chrono::steady_clock::now();
    const double processor_start = processor_seconds();
    if (way == "plain") {
      loss = train(step);
    } else if (way == "per_block" || way == "keep_matmuls" || way == "rerun") {
      by_block_ = checkpoint_options(way);
      loss = train(step);
      by_block_.reset();
    } else if (way == "keep_all") {
      const encore::Scope scope(encore::keep_all());
      loss = train(step);
    } else {
      encore::MemoryBudget& budget = way == "least"    ? least_budget()
                                     : way == "within" ? changing_budget(limit_bytes)
                                                       : budgets_.try_emplace(limit_bytes, limit_bytes).first->second;
      limit_bytes = budget.limit_bytes();
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
    const double processor = processor_seconds() - processor_start;
    if (!refused.empty()) {
      out << R"("refused": ")" << refused << "\"}";
      return out.str();
    }
    uint64_t hash = hash_of(0, loss);
    for (const torch::Tensor& parameter : workload_.parameters) {
      hash = parameter.grad().defined() ? hash_of(hash, parameter.grad()) : hash;
    }
    if (!folder_.empty()) {
      std::vector<torch::Tensor> gradients;
      for (const torch::Tensor& parameter : workload_.parameters) {
        gradients.push_back(parameter.grad());
      }
      write(folder_ + "/gradients" + std::to_string(step), gradients);
    }
    const char* modes[] = {"learning", "online", "planned"};
    out << R"({"seconds": )" << seconds << R"(, "processor_seconds": )" << processor << R"(, "kinds_seen": )"
        << report.kinds_seen << R"(, "kinds_known": )" << report.kinds_known << R"(, "learning_seconds": )"
        << report.learning_seconds << R"(, "training_seconds": )" << report.training_seconds << R"(, "resting_bytes": )"
        << memory.start_bytes() << R"(, "peak_bytes": )" << memory.peak_bytes() << R"(, "hash": ")" << hash
        << R"(", "mode": ")" << (limit_bytes > 0 ? modes[static_cast<int>(report.mode)] : way.c_str())
        << R"(", "budget_bytes": )" << limit_bytes << R"(, "predicted_peak_bytes": )" << report.predicted_peak_bytes
        << R"(, "plain_peak_bytes": )" << report.plain_peak_bytes << R"(, "ops_replayed": )" << report.ops_replayed
        << R"(, "replay_seconds": )" << report.replay_seconds << R"(, "planning_seconds": )" << report.planning_seconds
        << R"(, "eviction_seconds": )" << report.eviction_seconds << R"(, "evictions": )" << report.evictions
        << R"(, "predicted_seconds": )" << report.predicted_seconds << R"(, "plain_seconds": )" << report.plain_seconds
        << R"(, "held_bytes": )" << encore::BlockReuse::held_bytes() << R"(, "note": ")" << report.note << "\"}";
    return out.str();
  }

 private:
  torch::Tensor train(int64_t step) {
    zero_gradients();
    torch::Tensor loss = by_block_ ? loss_by_block(step) : workload_.loss(step);
    loss.backward();
    adam_.step();
    return loss.detach();
  }

  /// They stay where they are: Optimizer::zero_grad() frees them by default in LibTorch 2, and does not before.
  void zero_gradients() {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : workload_.parameters) {
      if (parameter.grad().defined()) {
        parameter.mutable_grad().zero_();
      }
    }
  }

  encore::MemoryBudget& least_budget() {
    constexpr int kLearning = 3;
    if (!least_) {  // not before: a budget that lives reuses blocks, and plain steps would, too
      least_.emplace(int64_t{1} << 40);
    }
    if (++least_steps_ == kLearning + 1) {
      try {
        least_->set_limit(encore::live_tensor_bytes() + 1);
        const auto step = least_->step();
        train(least_steps_);
      } catch (const encore::BudgetError& error) {
        least_->set_limit(error.figures().least_bytes);
      }
    }
    return *least_;
  }

  encore::MemoryBudget& changing_budget(int64_t limit_bytes) {
    if (!changing_) {
      changing_.emplace(limit_bytes);
    }
    changing_->set_limit(limit_bytes);
    return *changing_;
  }

  static encore::CheckpointOptions checkpoint_options(const std::string& way) {
    encore::CheckpointOptions options;
    if (way == "keep_matmuls") {
      options.policy = encore::keep_matmuls() | encore::pack_masks();
    } else if (way == "rerun") {
      options.recompute = encore::Recompute::kRerun;
    }
    return options;
  }

  torch::Tensor loss_by_block(int64_t step) {
    const workloads::StepData data = workload_.data(step);
    torch::manual_seed(data.seed);
    auto& gpt = dynamic_cast<workloads::GptImpl&>(*workload_.module);
    return gpt.forward(data.inputs, data.targets, [this](workloads::Block& block, const torch::Tensor& x) {
      return encore::checkpoint(*by_block_, block, x);
    });
  }

  workloads::Workload workload_;
  std::optional<encore::CheckpointOptions> by_block_;
  std::string folder_;
  torch::optim::Adam adam_;
  std::map<int64_t, encore::MemoryBudget> budgets_;
  std::optional<encore::MemoryBudget> least_;
  std::optional<encore::MemoryBudget> changing_;
  int least_steps_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: bench_steps WORKLOAD small|real [--reuse] [--dump FOLDER]\n";
    return 2;
  }
  encore::live_tensor_bytes();  // counts from here on
  std::optional<encore::BlockReuse> reuse;
  Server server(argv[1], argv[2] == std::string("real") ? workloads::Size::kReal : workloads::Size::kSmall);
  for (int i = 3; i < argc; ++i) {
    if (argv[i] == std::string("--reuse")) {
      reuse.emplace();
    } else if (argv[i] == std::string("--dump") && i + 1 < argc) {
      server.dump(argv[++i]);
    }
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    int64_t step = 0;
    int64_t limit_bytes = 0;
    std::string way;
    std::string file;
    words >> step >> way >> limit_bytes >> file;
    if (way == "run") {
      server.write_run(limit_bytes, file);
      std::cout << "{}" << std::endl;
    } else {
      std::cout << server.answer(step, way, limit_bytes) << std::endl;
    }
  }
}
