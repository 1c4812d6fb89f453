// A recorder on its thread: which one is current, and when it does not listen.
#include "record/recorder.h"
#include "record/thread.h"

namespace encore::record {

void Recorder::uninstall() {
  if (installed_) {
    installed_ = false;
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
