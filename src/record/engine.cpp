// An engine that differs from LibTorch's own only in what it tells us.
#include "record/engine.h"

#include <typeinfo>

#include <c10/util/flat_hash_map.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <encore/error.h>

#include "record/recorder.h"

namespace encore::record {
namespace {

thread_local std::vector<std::vector<std::function<void()>>> g_backwards;
std::atomic<void (*)()> g_backward_listener{nullptr};

class Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Hooks(Recorder& recorder) : recorder_(recorder) {}
  void call_pack_hook(const at::Tensor& tensor) override { saved_ = recorder_.save(tensor); }
  at::Tensor call_unpack_hook() override { return saved_->get(); }

 private:
  Recorder& recorder_;  // used at once, in the pack hook only
  std::shared_ptr<Saved> saved_;
};

/// Tells the open regions which leaves a backward from `roots` may add to.
void tell_regions(const torch::autograd::edge_list& roots) {
  const Recorder* recorder = Recorder::current();
  if (recorder == nullptr || Recorder::is_paused()) {
    return;
  }
  const auto& regions = recorder->regions();
  if (std::none_of(regions.begin(), regions.end(), [](const auto& region) { return region->wants_leaves(); })) {
    return;
  }
  std::vector<torch::autograd::Node*> open;
  ska::flat_hash_set<torch::autograd::Node*> seen;
  const auto visit = [&](const torch::autograd::Edge& edge) {
    if (edge.is_valid() && seen.insert(edge.function.get()).second) {
      open.push_back(edge.function.get());
    }
  };
  std::for_each(roots.begin(), roots.end(), visit);
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    std::for_each(node->next_edges().begin(), node->next_edges().end(), visit);
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      for (const auto& region : regions) {
        region->accumulates_into(leaf->variable);
      }
    }
  }
}

/// Before a backward and after it much of what was recorded can't be asked for any more.
void sweep_tape() {
  if (const Recorder* recorder = Recorder::current()) {
    const std::lock_guard<std::recursive_mutex> lock(recorder->tape()->mutex());
    recorder->tape()->sweep(tape::Tape::Sweep::kForHandles);
  }
}

/// One run of backward on this thread.
class BackwardRun {
 public:
  explicit BackwardRun(bool recorded) {
    g_backwards.emplace_back();
    tape::begin_backward();
    sweep_tape();
    if (!recorded) {
      pause_.emplace();
      unobserved_.emplace();
    }
  }
  ~BackwardRun() {
    const auto releases = std::move(g_backwards.back());
    g_backwards.pop_back();
    for (const auto& release : releases) {
      release();
    }
    sweep_tape();
  }
  BackwardRun(const BackwardRun&) = delete;
  BackwardRun& operator=(const BackwardRun&) = delete;

 private:
  // Without create_graph nothing that backward computes can be saved, so nothing of it need be recorded. LibTorch boxes
  // the arguments and results of every op that somebody observes, paused or not.
  std::optional<Recorder::Pause> pause_;
  std::optional<Recorder::Unobserved> unobserved_;
};

class Engine final : public torch::autograd::Engine {
 public:
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs, bool keep_graph,
                                         bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    if (accumulate_grad) {
      tell_regions(roots);
    }
    if (void (*listener)() = g_backward_listener.load()) {
      listener();
    }
    const BackwardRun run(create_graph);
    return torch::autograd::Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    Recorder* recorder = Recorder::current();
    if (recorder == nullptr || Recorder::is_paused() || recorder->regions().empty()) {
      return nullptr;
    }
    return std::make_unique<Hooks>(*recorder);
  }

  static torch::autograd::Engine& instance() {
    static auto* engine = new Engine;  // outlives every graph, as LibTorch's own does
    return *engine;
  }
};

}  // namespace

void ensure_engine() {
  static std::once_flag once;
  std::call_once(once, [] {
    const torch::autograd::Engine& present = torch::autograd::Engine::get_default_engine();
    if (typeid(present) != typeid(torch::autograd::Engine)) {
      throw SlotError(std::string("engine: the autograd engine of this process is ") + typeid(present).name() +
                      ", not LibTorch's own; Encore works in C++ processes only, not inside Python");
    }
    torch::autograd::set_default_engine_stub(&Engine::instance);
  });
}

void set_backward_listener(void (*listener)()) {
  g_backward_listener.store(listener);
}

void release_after_backward(std::function<void()> release) {
  if (!g_backwards.empty()) {
    g_backwards.back().push_back(std::move(release));
  }
}

}  // namespace encore::record
