// One way of running a long chain of ops on one element each: what is left beside Encore's books is LibTorch's own
// cost.
//
//   bench_record idle|keep_all|checkpoint|online|planned|nograd|nograd_keep_all [STEPS]
//   bench_record_plain plain|nograd_plain          (the same, linked without Encore)
//
// Prints nanoseconds of processor time for each op: of the best step's forward, of the best step's backward, and of the
// best whole step. bench/record/run.py runs them in turn and subtracts.
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

#include <torch/torch.h>

#ifndef WITHOUT_ENCORE
#include <encore/encore.h>
#endif

namespace {

constexpr int kOps = 4000;
int g_steps = 12;

double processor_ns() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

torch::Tensor chain(torch::Tensor x, const torch::Tensor& weight) {
  for (int i = 0; i < kOps; ++i) {
    x = x * weight;
  }
  return x;
}

struct Best {
  double forward = 1e18;
  double backward = 1e18;
  double step = 1e18;
};

using Forward = std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)>;

/// A step of two backwards' worth of ops: each product's backward multiplies twice.
void step(const Forward& forward, torch::Tensor& weight, bool differentiate, Best& best) {
  const torch::Tensor input = torch::ones({1});
  const double start = processor_ns();
  const torch::Tensor loss = forward(input, weight);
  const double middle = processor_ns();
  if (differentiate) {
    loss.backward();
  }
  const double end = processor_ns();
  best.forward = std::min(best.forward, middle - start);
  best.backward = std::min(best.backward, end - middle);
  best.step = std::min(best.step, end - start);
}

void run(const std::string& way, torch::Tensor& weight, Best& best) {
  const bool differentiate = way.rfind("nograd", 0) != 0;
  const torch::AutoGradMode mode(differentiate);
#ifndef WITHOUT_ENCORE
  if (way == "online" || way == "planned") {
    encore::MemoryBudget budget("1GiB");
    for (int i = 0; i < g_steps; ++i) {
      if (way == "online") {
        budget = encore::MemoryBudget("1GiB");
      }
      Best unused;
      const auto scope = budget.step();
      step(chain, weight, differentiate, way == "online" || i > 4 ? best : unused);
    }
    return;
  }
#endif
  for (int i = 0; i < g_steps; ++i) {
#ifndef WITHOUT_ENCORE
    if (way == "keep_all" || way == "nograd_keep_all") {
      const encore::Scope scope(encore::keep_all());
      step(chain, weight, differentiate, best);
      continue;
    }
    if (way == "checkpoint") {
      step([](const torch::Tensor& x, const torch::Tensor& w) { return encore::checkpoint(chain, x, w); }, weight,
           differentiate, best);
      continue;
    }
#endif
    step(chain, weight, differentiate, best);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_record WAY [STEPS]\n");
    return 2;
  }
  torch::set_num_threads(1);
  torch::Tensor weight = torch::ones({1}).requires_grad_();
  const std::string way = argv[1];
  g_steps = argc > 2 ? std::atoi(argv[2]) : g_steps;
#ifndef WITHOUT_ENCORE
  if (way == "idle") {  // something has been open in this process
    (void)encore::checkpoint([](const torch::Tensor& x) { return x.exp(); }, weight);
    const encore::Scope scope(encore::keep_all());
  }
#endif
  Best best;
  run(way, weight, best);
  std::printf("%.1f %.1f %.1f\n", best.forward / kOps, best.backward / kOps, best.step / kOps);
}
