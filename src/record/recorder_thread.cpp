// A recorder on its thread: which one is current, and when it does not listen.
#include "base/spare.h"
#include "record/backward.h"
#include "record/recorder.h"
#include "record/thread.h"

namespace encore::record {

/// Whoever was told that it begins is told that it ends, whatever the node does to the recorder of its thread.
struct Recorder::Node final : at::ObserverContext, Spared<Node> {
  explicit Node(Recorder& recorder) : told(recorder.weak_from_this()) {}
  const std::weak_ptr<Recorder> told;
};

void Recorder::observe_nodes(bool wanted) {
  if (wanted && !observes_nodes_) {
    this_thread().observer.add_nodes(at::RecordFunctionCallback(&Recorder::on_node_start, &Recorder::on_node_end)
                                         .scopes({at::RecordScope::BACKWARD_FUNCTION}));
  } else if (!wanted && observes_nodes_) {
    this_thread().observer.remove_nodes();
  }
  observes_nodes_ = wanted;
}

std::unique_ptr<at::ObserverContext> Recorder::on_node_start(const at::RecordFunction& call) {
  Recorder* recorder = current();
  if (recorder == nullptr || !recorder->observes_nodes_) {
    return nullptr;
  }
  notice_backward();
  auto node = std::make_unique<Node>(*recorder);
  try {
    recorder->tell(&Subscriber::node_begins, call.name());
  } catch (...) {
    recorder->failure_ = std::current_exception();
  }
  return node;
}

void Recorder::on_node_end(const at::RecordFunction&, at::ObserverContext* context) {
  const auto recorder = context == nullptr ? nullptr : static_cast<Node*>(context)->told.lock();
  if (!recorder) {
    return;
  }
  try {
    recorder->tell(&Subscriber::node_ended);
  } catch (...) {
    recorder->failure_ = std::current_exception();
  }
}

void Recorder::uninstall() {
  if (installed_) {
    installed_ = false;
    observe_nodes(false);
    this_thread().observer.remove();
    this_thread().recorder = outer_;
  }
}

Recorder* Recorder::current() {
  ThreadState& thread = this_thread();
  while (thread.recorder != nullptr && thread.recorder->abandoned_.load()) {
    // Its scope was destroyed on another thread, which could not take it off this one.
    const std::shared_ptr<Recorder> last_owner = std::move(thread.recorder->abandoned_self_);
    thread.recorder->uninstall();
  }
  return thread.recorder;
}

void Recorder::abandon(std::shared_ptr<Recorder> self) {
  Recorder& recorder = *self;
  recorder.abandoned_self_ = std::move(self);
  recorder.abandoned_.store(true);
}

Recorder::Pause::Pause() {
  ++this_thread().paused;
}
Recorder::Pause::~Pause() {
  --this_thread().paused;
}
bool Recorder::is_paused() {
  return this_thread().paused > 0;
}

Recorder::Unobserved::Unobserved() : users_(this_thread().observer.rest()) {}
Recorder::Unobserved::~Unobserved() {
  this_thread().observer.resume(users_, callback());
}

Recorder::Aside::Aside()
    : recorder_(std::exchange(this_thread().recorder, nullptr)), paused_(std::exchange(this_thread().paused, 0)) {}
Recorder::Aside::~Aside() {
  if (!forgotten_) {
    this_thread().recorder = recorder_;
    this_thread().paused = paused_;
  }
}

}  // namespace encore::record
