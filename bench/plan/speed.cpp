// How long planning takes: chains, and graphs of growing size. Usage: bench_plan_speed [--quick]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>

#include <encore/plan/planner.h>

#include "net.h"
#include "small_graphs.h"

namespace encore::plan::bench {
namespace {

// Wall time, and the time of this process, which other processes on the machine change less.
class Watch {
 public:
  [[nodiscard]] double wall() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_).count();
  }
  [[nodiscard]] double cpu() const { return static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC; }

 private:
  std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
  std::clock_t cpu_ = std::clock();
};

Chain uniform_chain(int32_t stages) {
  Chain chain;
  chain.input_bytes = 1 << 20;
  chain.stages.assign(stages, Stage{1, 2, 1 << 20, 5 << 20, 1 << 18, 1 << 18});
  return chain;
}

// As a residual network for small images: three groups of equal blocks, each with half the bytes of the one before, and
// a block between them that is unlike the others.
Chain residual_chain(int32_t stages) {
  Chain chain;
  chain.input_bytes = 4 << 20;
  for (int32_t s = 0; s < stages; ++s) {
    const int32_t group = 3 * s / stages;
    const bool first = s == 0 || 3 * (s - 1) / stages != group;
    const int64_t bytes = (16 << 20) >> group;
    chain.stages.push_back(
        {first ? 1.5 : 1.0, first ? 3.0 : 2.0, bytes, (first ? 4 : 3) * bytes, bytes / 4, bytes / 4});
  }
  return chain;
}

Chain random_chain(int32_t stages) {
  Dice dice(17);
  Chain chain;
  chain.input_bytes = 1'000'003;
  for (int32_t s = 0; s < stages; ++s) {
    const int64_t bytes = dice.roll(500'000, 1'500'000);
    const double time = dice.roll(1000, 2000) / 1000.0;
    chain.stages.push_back({time, 2 * time, bytes, bytes * dice.roll(2, 4) + dice.roll(0, 99'999), 0, 0});
  }
  return chain;
}

void chains(bool quick) {
  std::printf("\nChains, whole curve from one solve\n%-28s %6s %9s %9s %9s %9s\n", "chain", "stages", "seconds",
              "cpu s", "corners", "rounding");
  struct Case {
    const char* name;
    Chain (*make)(int32_t);
    int32_t stages;
    bool slow;
  };
  for (const Case& it : {Case{"uniform", uniform_chain, 100, false}, Case{"uniform", uniform_chain, 340, false},
                         Case{"residual, three groups", residual_chain, 100, false},
                         Case{"residual, three groups", residual_chain, 340, true},
                         Case{"random, all different", random_chain, 50, false},
                         Case{"random, all different", random_chain, 100, true}}) {
    if (quick && it.slow) {
      continue;
    }
    const Chain chain = it.make(it.stages);
    const Watch watch;
    const ChainSolution solution = solve(chain);
    std::printf("%-28s %6d %9.3f %9.3f %9zu %8.2f%%\n", it.name, it.stages, watch.wall(), watch.cpu(),
                solution.curve().size(), 100 * solution.rounding());
    std::fflush(stdout);
  }
}

void growth(bool quick) {
  std::printf(
      "\nGraphs (transformers of growing depth), one plan at 60%% of the plain peak\n%8s %9s %9s %12s %12s %10s\n",
      "steps", "seconds", "cpu s", "overhead", "lower bound", "growth");
  double last = 0;
  for (const int64_t steps : {250, 500, 1000, 2000, 4000, 8000, 10000, 16000}) {
    if (quick && steps > 4000) {
      continue;
    }
    const int64_t layers = std::max<int64_t>(1, (steps - 20) / 53);
    const Graph graph = gpt(layers, 256, 4, 256, 4);
    const Watch watch;
    const Plan answer = plan(graph, baseline(graph).peak_bytes * 6 / 10);
    const double wall = watch.wall();
    const double seconds = watch.cpu();
    std::printf("%8zu %9.3f %9.3f %11.2f%% %11.2f%% %10s\n", graph.steps.size(), wall, seconds,
                100 * (answer.time / answer.baseline_time - 1),
                100 * (answer.lower_bound_time / answer.baseline_time - 1),
                last > 0 ? (std::to_string(seconds / last).substr(0, 4) + "x").c_str() : "");
    std::fflush(stdout);
    last = seconds;
  }
}

}  // namespace
}  // namespace encore::plan::bench

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  encore::plan::bench::chains(quick);
  encore::plan::bench::growth(quick);
  return 0;
}
