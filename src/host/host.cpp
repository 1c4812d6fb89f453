// Which host this process has.
#include "host/host.h"

#include <atomic>
#include <mutex>

#include "host/leaves.h"
#include "host/python_host.h"
#include "record/recorder.h"

namespace encore::host {
namespace {

struct Chosen {
  std::mutex mutex;
  std::unique_ptr<Host> host;
  std::atomic<bool> has_engine{false};
};

Chosen& chosen() {
  static auto* chosen = new Chosen;  // its engine outlives every graph
  return *chosen;
}

}  // namespace

void use_python(const Interpreter& interpreter) {
  const std::lock_guard<std::mutex> lock(chosen().mutex);
  if (chosen().has_engine) {
    throw SlotError("engine: this process has used Encore from C++ before Python was there; import encore first");
  }
  chosen().host = make_python_host(interpreter);
}

void ensure_engine() {
  if (chosen().has_engine) {
    return;
  }
  const std::lock_guard<std::mutex> lock(chosen().mutex);
  if (chosen().has_engine) {
    return;
  }
  if (!chosen().host) {
    chosen().host = make_cpp_host();
  }
  try {
    chosen().host->take_engine();
    chosen().has_engine = true;
  } catch (const SlotError&) {
    chosen().host.reset();  // the slot may be free another time
    throw;
  }
}

std::unique_ptr<record::BackwardRun> begin_backward(const torch::autograd::edge_list& roots, bool create_graph,
                                                    bool accumulate_grad) {
  using record::BackwardRun;
  if (accumulate_grad) {
    tell_leaves(roots);
  }
  return std::make_unique<BackwardRun>(create_graph ? BackwardRun::Ops::kRecorded : BackwardRun::Ops::kUnobserved);
}

void forget_in_child() {
  // For good: its end would be the parent's business, too.
  [[maybe_unused]] static const auto* aside = new record::Recorder::Aside;
}

}  // namespace encore::host
