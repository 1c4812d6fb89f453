// One way of running a long chain of ops on one element each: what is left beside Encore's books is LibTorch's own
// cost.
//
//   bench_record idle|keep_all|checkpoint|online|planned|nograd|nograd_keep_all [STEPS]
//   bench_record_plain plain|nograd_plain|observed|floor     (the same, linked without Encore)
//
// `observed` and `floor` are what anybody pays who looks at LibTorch's ops: an observer that is given what each op has
// in hand, and does nothing; in `floor` also hooks that hold what autograd saves. Off in backward, as Encore's is.
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

#ifdef WITHOUT_ENCORE
#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/version.h>
#else
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

#ifdef WITHOUT_ENCORE
bool g_holds = false;

class Held final : public torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override {
    tensor_ = at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(/*version_counter=*/0, true));
  }
  at::Tensor call_unpack_hook() override { return tensor_; }
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 207
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data() const override {
    return std::nullopt;
  }
#endif

 private:
  at::Tensor tensor_;
};

class HoldingEngine final : public torch::autograd::Engine {
 public:
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return g_holds ? std::make_unique<Held>() : nullptr;
  }
  static torch::autograd::Engine& instance() {
    static auto* engine = new HoldingEngine;  // outlives every graph
    return *engine;
  }
};

torch::Tensor observed_chain(const torch::Tensor& x, const torch::Tensor& weight) {
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> { return nullptr; },
          [](const at::RecordFunction&, at::ObserverContext*) {})
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
  torch::Tensor result = chain(x, weight);
  at::removeCallback(handle);
  return result;
}
#endif

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
#ifdef WITHOUT_ENCORE
    if (way == "observed" || way == "floor") {
      g_holds = way == "floor";
      torch::autograd::set_default_engine_stub(&HoldingEngine::instance);
      step(observed_chain, weight, differentiate, best);
      continue;
    }
#else
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
