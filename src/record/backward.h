// A backward that runs on this thread: what rests meanwhile, and what is released with it.
#pragma once

#include <functional>
#include <vector>

#include <encore/export.h>

#include "record/recorder.h"

namespace encore::record {

/// One run of backward, from before its first node to its end. Runs nest; each begins and ends on the thread that runs
/// its nodes.
class ENCORE_API BackwardRun {
 public:
  enum class Ops {
    kRecorded,    // create_graph: what backward computes may be saved in turn
    kUnrecorded,  // seen, and passed over
    kUnobserved,  // not even seen: the observer is off while the run lives
  };
  explicit BackwardRun(Ops ops);
  ~BackwardRun();
  BackwardRun(const BackwardRun&) = delete;
  BackwardRun& operator=(const BackwardRun&) = delete;

  /// The innermost one of this thread, or null.
  static BackwardRun* current();
  /// What stands for its graph task, once that is known; for hosts.
  const void* task() const { return task_; }
  void set_task(const void* task) { task_ = task; }

 private:
  friend void release_after_backward(std::function<void()> release);

  const void* task_ = nullptr;
  std::vector<std::function<void()>> releases_;
  std::optional<Recorder::Pause> pause_;
  std::optional<Recorder::Unobserved> unobserved_;
};

/// Calls `release` when the backward that runs on this thread ends. Without one, nothing is called.
void release_after_backward(std::function<void()> release);

/// LibTorch keeps what is left of a backward that threw, gradients and all, until the thread runs the next one: runs
/// one, unless the thread is inside another.
void let_go_of_failed_backward() noexcept;

/// A node of a backward runs on this thread, or asks for a tensor: if the thread knows of no backward, its host is
/// asked to look for one.
void notice_backward();
/// For hosts in which a backward may come unannounced.
void set_notice(void (*notice)());

}  // namespace encore::record
