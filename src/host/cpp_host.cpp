// The C++ host: an engine that differs from LibTorch's own only in what it tells us.
#include <typeinfo>

#include <torch/csrc/autograd/engine.h>

#include "host/host.h"
#include "record/saving_hooks.h"

namespace encore::host {
namespace {

using torch::autograd::edge_list;
using torch::autograd::variable_list;

// All that C++ runs backward with comes through execute(). It is before the graph task, which takes the thread's
// observers with it: so here they can be taken off for the whole of it, which an observer of nodes could not do.
class Engine final : public torch::autograd::Engine {
 public:
  variable_list execute(const edge_list& roots, const variable_list& inputs, bool keep_graph, bool create_graph,
                        bool accumulate_grad, const edge_list& outputs) override {
    const auto run = begin_backward(roots, create_graph, accumulate_grad);
    return torch::autograd::Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return record::saving_hooks();
  }

  static torch::autograd::Engine& instance() {
    static auto* engine = new Engine;  // outlives every graph, as LibTorch's own does
    return *engine;
  }
};

class CppHost final : public Host {
 public:
  void take_engine() override {
    const torch::autograd::Engine& present = torch::autograd::Engine::get_default_engine();
    if (typeid(present) != typeid(torch::autograd::Engine)) {
      throw SlotError(std::string("engine: the autograd engine of this process is ") + typeid(present).name() +
                      ", not LibTorch's own; in a Python process, `import encore` first");
    }
    torch::autograd::set_default_engine_stub(&Engine::instance);
  }
};

}  // namespace

std::unique_ptr<Host> make_cpp_host() {
  return std::make_unique<CppHost>();
}

}  // namespace encore::host
