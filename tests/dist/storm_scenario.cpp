// A training run that is hit, from outside or inside, and goes on or is resumed: one incarnation of one rank.
#include "worker.h"

#include <fstream>

namespace worker {
namespace {

struct Failure {
  int rank = -1;
  int step = -1;
  std::string place;  // forward, backward, replay, budget
};

Failure parse(const std::string& text) {
  Failure failure;
  if (text != "-") {
    const size_t first = text.find(':');
    const size_t second = text.find(':', first + 1);
    failure.rank = std::stoi(text);
    failure.step = std::stoi(text.substr(first + 1));
    failure.place = text.substr(second + 1);
  }
  return failure;
}

/// A function whose second call, in backward, throws if asked to.
at::Tensor passed_on(const at::Tensor& x, const std::shared_ptr<int>& calls, bool throws_again) {
  encore::CheckpointOptions options;
  options.recompute = encore::Recompute::kRerun;
  return encore::checkpoint(
      options,
      [calls, throws_again](const at::Tensor& in) {
        if (++*calls == 2 && throws_again) {
          throw std::runtime_error("thrown by the test in replay");
        }
        return in.exp().sin();  // what sin() needs is gone
      },
      x);
}

void one_step(const World& world, Net& net, encore::DataParallel& parallel, encore::ShardedOptimizer& optimizer,
              encore::MemoryBudget& budget, int step, const std::string& fails_in) {
  torch::manual_seed(1000 * step + world.rank);
  encore::MemoryBudget small(encore::live_tensor_bytes() + parallel.slot_bytes() + parallel.scratch_bytes() + 5000);
  const auto scope = parallel.step(fails_in == "budget" ? small : budget);
  at::Tensor loss = loss_of(net, world, step, false, 64);
  if (fails_in == "forward") {
    throw std::runtime_error("thrown by the test in forward");
  }
  const auto calls = std::make_shared<int>(0);
  loss = passed_on(loss, calls, fails_in == "replay");
  if (fails_in == "backward") {
    loss.register_hook([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("thrown in backward"); });
  }
  loss.backward();
  optimizer.step();
}

}  // namespace

bool storm(const World& world, const std::string& path, int steps, const std::string& failure) {
  Net net = make_net(world);
  encore::DataParallel parallel(*net, world.group, small_buckets());
  encore::ShardedOptimizer optimizer(parallel, [](std::vector<at::Tensor> parameter) {
    return std::make_unique<torch::optim::Adam>(parameter, torch::optim::AdamOptions(0.01));
  });
  encore::MemoryBudget budget("64MiB");
  Failure planned = parse(failure);
  int step = std::ifstream(path).good() ? std::stoi(optimizer.load(path)) : 0;
  std::cout << "began at " << step << std::endl;
  planned.step = std::min(planned.step + step, steps - 1);
  int64_t live = -1;
  while (step < steps) {
    const auto began = std::chrono::steady_clock::now();
    const bool fails_here = step == planned.step;
    try {
      one_step(world, net, parallel, optimizer, budget, step,
               fails_here && world.rank == planned.rank ? planned.place : "");
      live = encore::live_tensor_bytes();
      if (++step % 5 == 0) {
        optimizer.save(path, std::to_string(step));
      }
    } catch (const std::exception& error) {
      const auto* named = dynamic_cast<const encore::RankError*>(&error);
      if (world.group.is_lost()) {
        expect(named != nullptr, error.what());
        const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
        std::cout << "lost " << named->rank() << " in '" << named->collective() << "' after " << seconds
                  << " s: " << error.what() << std::endl;
        return false;
      }
      const auto* refused = dynamic_cast<const encore::RankBudgetError*>(&error);
      const int culprit = named != nullptr ? named->rank() : refused != nullptr ? refused->rank() : world.rank;
      std::cout << "told of " << culprit << ": " << error.what() << std::endl;
      expect(fails_here && culprit == planned.rank, "another rank is named: " + std::string(error.what()));
      planned.step = -1;  // and once more
      const int64_t now = encore::live_tensor_bytes();
      expect(live < 0 || now <= live, "a failed step leaves bytes behind: " + std::to_string(now - live));
    }
  }
  print_hash("final", state_of(*net));
  return true;
}

}  // namespace worker
