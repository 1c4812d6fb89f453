// The life of a region on its thread.
#include "region/open_region.h"

#include <encore/error.h>

#include "host/host.h"

namespace encore::region {

using record::Recorder;

OpenRegion::OpenRegion(const std::string& name, const Make& make) : thread_(std::this_thread::get_id()) {
  host::ensure_engine();
  Recorder* current = Recorder::current();
  if (current == nullptr || Recorder::is_paused()) {
    // Inside backward the thread's own recorder rests: what begins here has a tape of its own.
    aside_.emplace();
    residency_ = std::make_shared<store::Residency>(name);
    own_recorder_ = std::make_shared<Recorder>(residency_);
    weak_recorder_ = own_recorder_;
  } else {
    residency_ = current->residency();
    weak_recorder_ = current->weak_from_this();
  }
  const std::shared_ptr<Recorder> recorder = weak_recorder_.lock();
  std::shared_ptr<ReplayRegion> parent;
  if (!recorder->regions().empty()) {
    parent = std::dynamic_pointer_cast<ReplayRegion>(recorder->regions().back());
  }
  const std::lock_guard<RecursiveMutex> lock(tape().mutex());
  region_ = make(residency_, static_cast<tape::OpId>(tape().ops().size()), std::move(parent));
  recorder->push(region_);
}

OpenRegion::~OpenRegion() {
  // Another thread must not look at this one's regions while it may be changing them.
  if (thread_ != std::this_thread::get_id() || is_open()) {
    shut();
  }
}

bool OpenRegion::is_open() const {
  const auto recorder = weak_recorder_.lock();
  return recorder &&
         std::find(recorder->regions().begin(), recorder->regions().end(), region_) != recorder->regions().end();
}

void OpenRegion::shut() {
  if (thread_ != std::this_thread::get_id()) {
    if (own_recorder_) {
      aside_->forget();
      Recorder::abandon(std::move(own_recorder_));
    }
    return;
  }
  if (const auto recorder = weak_recorder_.lock()) {
    while (recorder->regions().back() != region_) {
      recorder->pop();
    }
    recorder->pop();
  }
  if (own_recorder_) {
    own_recorder_->uninstall();
    own_recorder_.reset();
  }
  aside_.reset();
}

void OpenRegion::close(const std::string& who) {
  if (thread_ != std::this_thread::get_id()) {
    throw ScopeError(who + ": ended on another thread than the one that began it; end it there");
  }
  if (!is_open()) {
    throw ScopeError(who +
                     ": ended already, by itself or with a scope around it; end each scope once, innermost first");
  }
  const auto recorder = weak_recorder_.lock();
  if (recorder->regions().back() != region_) {
    throw ScopeError(who + ": a scope inside it is still open; end scopes innermost first");
  }
  std::exception_ptr failure;
  try {
    recorder->rethrow_failure();
  } catch (...) {
    failure = std::current_exception();
  }
  shut();
  if (failure) {
    std::rethrow_exception(failure);
  }
}

std::shared_ptr<Governor> OpenRegion::governor() {
  const Recorder* recorder = Recorder::current();
  if (recorder == nullptr || Recorder::is_paused() || recorder->regions().empty()) {
    return nullptr;
  }
  const auto* innermost = dynamic_cast<const ReplayRegion*>(recorder->regions().back().get());
  return innermost == nullptr ? nullptr : innermost->governor();
}

bool OpenRegion::is_inside_rerun() {
  const Recorder* recorder = Recorder::current();
  return recorder != nullptr && !Recorder::is_paused() && recorder->called_again() != nullptr;
}

}  // namespace encore::region
