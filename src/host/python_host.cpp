// The Python host: an engine in front of Python's that answers only how to save a tensor.
//
// Python's own calls of backward go by its own engine, not by the one in the slot: the module announces them. A
// backward that nobody announced is noticed by its first node, where a budget watches nodes, or by the first tensor
// that it asks for.
#include "host/python_host.h"

#include <thread>

#include <torch/csrc/autograd/engine.h>

#include "base/mutex.h"
#include "host/leaves.h"
#include "record/saving_hooks.h"
#include "tape/compat.h"

namespace encore::host {
namespace {

using record::BackwardRun;

/// C++ code that runs backward in a Python process comes by here.
class ChainedEngine final : public torch::autograd::Engine {
 public:
  explicit ChainedEngine(torch::autograd::Engine& before) : before_(before) {}

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs, bool keep_graph,
                                         bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    const auto run = begin_backward(roots, create_graph, accumulate_grad);
    return before_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& graph_task, compat::NodePtr graph_root,
      torch::autograd::InputBuffer&& input_buffer) override {
    return before_.execute_with_graph_task(graph_task, std::move(graph_root), std::move(input_buffer));
  }
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return before_.make_anomaly_metadata();
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (auto hooks = record::saving_hooks()) {
      return hooks;
    }
    return before_.get_default_saved_variable_hooks();
  }
#if ENCORE_TORCH_AT_LEAST(2, 14)
  std::vector<std::unique_ptr<torch::autograd::NodeCreationHook>> get_node_creation_hooks() override {
    return before_.get_node_creation_hooks();
  }
#endif

 private:
  torch::autograd::Engine& before_;
};

ChainedEngine* g_engine = nullptr;  // never destroyed: outlives every graph

/// A graph task that nobody announced, whose nodes run on this thread.
class Task {
 public:
  explicit Task(const void* id) : id_(id) {}

  const void* id() const { return id_; }
  void begin(BackwardRun::Ops ops) {
    run_.emplace(ops);
    run_->set_task(id_);
  }
  bool is_over() const { return over_; }
  /// Known by the first of two: the graph task's last callback, or its destruction, where backward threw. The thread is
  /// another one only where the task's own thread, one of the engine's, has given it up.
  void end() {
    over_ = true;
    if (std::this_thread::get_id() == thread_) {
      run_.reset();
    }
  }

 private:
  const void* id_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::optional<BackwardRun> run_;
  std::atomic<bool> over_{false};
};

thread_local std::vector<std::shared_ptr<Task>> g_tasks;

/// Part of the graph task, as one of its final callbacks.
class EndOfTask {
 public:
  explicit EndOfTask(std::shared_ptr<Task> task) : task_(std::move(task)) {}
  ~EndOfTask() { end(); }
  EndOfTask(const EndOfTask&) = delete;
  EndOfTask& operator=(const EndOfTask&) = delete;

  void end() noexcept {
    if (!task_->is_over()) {
      task_->end();
      g_tasks.erase(std::remove(g_tasks.begin(), g_tasks.end(), task_), g_tasks.end());
    }
  }

 private:
  std::shared_ptr<Task> task_;
};

void begin_task(const std::unordered_set<torch::autograd::Node*>& nodes) {
  tell_leaves_of_task(nodes);
  auto task = std::make_shared<Task>(&nodes);
  task->begin(c10::GradMode::is_enabled() ? BackwardRun::Ops::kRecorded : BackwardRun::Ops::kUnrecorded);
  g_tasks.push_back(task);
  const auto end = std::make_shared<EndOfTask>(std::move(task));
  // Queued anew by the first call, so as to come after those that were queued meanwhile: they are part of the backward,
  // as where data parallel training waits for its buckets.
  g_engine->queue_callback([end] { g_engine->queue_callback([end] { end->end(); }); });
}

void notice_backward() {
  const auto* nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
  BackwardRun* run = BackwardRun::current();
  if (run != nullptr && run->task() == nullptr) {
    run->set_task(nodes);  // announced, and this is it
  }
  if (nodes == nullptr || (run != nullptr && run->task() == nodes)) {
    return;
  }
  g_tasks.erase(std::remove_if(g_tasks.begin(), g_tasks.end(), [](const auto& task) { return task->is_over(); }),
                g_tasks.end());
  const bool known = std::any_of(g_tasks.begin(), g_tasks.end(), [&](const auto& task) { return task->id() == nodes; });
  if (!known) {
    begin_task(*nodes);
  }
}

class PythonHost final : public Host {
 public:
  explicit PythonHost(const Interpreter& interpreter)
      : interpreter_(interpreter), wait_hooks_{interpreter.let_go, interpreter.take_back} {}

  void take_engine() override {
    set_wait_hooks(&wait_hooks_);
    record::set_rethrow(interpreter_.rethrow);
    g_engine = new ChainedEngine(torch::autograd::Engine::get_default_engine());
    torch::autograd::set_default_engine_stub([]() -> torch::autograd::Engine& { return *g_engine; });
    record::set_notice(&notice_backward);
  }

 private:
  Interpreter interpreter_;
  WaitHooks wait_hooks_;
};

}  // namespace

std::unique_ptr<Host> make_python_host(const Interpreter& interpreter) {
  return std::make_unique<PythonHost>(interpreter);
}

}  // namespace encore::host
