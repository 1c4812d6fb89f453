// The beginning and the end of a backward, as its host tells them.
#include "record/backward.h"

#include "record/thread.h"

namespace encore::record {
namespace {

std::atomic<void (*)()> g_notice{nullptr};

void tell(void (Subscriber::*event)()) {
  tell_listeners(event);
  if (Recorder* recorder = Recorder::current()) {
    recorder->tell(event);
  }
}

/// Before a backward and after it much of what was recorded can't be asked for any more.
void sweep_tape() {
  if (const Recorder* recorder = Recorder::current()) {
    const std::lock_guard<RecursiveMutex> lock(recorder->tape().mutex());
    recorder->residency()->sweep(store::Residency::Sweep::kForHandles);
  }
}

}  // namespace

BackwardRun::BackwardRun(Ops ops) {
  tell(&Subscriber::backward_begins);
  backwards_of_this_thread().push_back(this);
  store::begin_backward();
  sweep_tape();
  // Without create_graph nothing that backward computes can be saved, so nothing of it need be recorded. LibTorch boxes
  // the arguments and results of every op that somebody observes, paused or not.
  if (ops != Ops::kRecorded) {
    pause_.emplace();
  }
  if (ops == Ops::kUnobserved) {
    unobserved_.emplace();
  }
}

BackwardRun::~BackwardRun() {
  std::vector<BackwardRun*>& runs = backwards_of_this_thread();
  runs.erase(std::find(runs.begin(), runs.end(), this));
  for (const auto& release : releases_) {
    release();
  }
  sweep_tape();
  tell(&Subscriber::backward_ended);
}

BackwardRun* BackwardRun::current() {
  const std::vector<BackwardRun*>& runs = backwards_of_this_thread();
  return runs.empty() ? nullptr : runs.back();
}

void release_after_backward(std::function<void()> release) {
  if (BackwardRun* run = BackwardRun::current()) {
    run->releases_.push_back(std::move(release));
  }
}

void let_go_of_failed_backward() noexcept {
  if (BackwardRun::current() != nullptr) {
    return;
  }
  try {
    const c10::InferenceMode no_inference(false);
    const at::AutoGradMode grad(true);
    at::ones({1}).requires_grad_().sum().backward();
  } catch (...) {  // then it is kept until the user's next one
  }
}

void notice_backward() {
  if (void (*notice)() = g_notice.load()) {
    notice();
  }
}

void set_notice(void (*notice)()) {
  g_notice.store(notice);
}

}  // namespace encore::record
