// One way to train, in a process of its own: steps of several ways can then take turns, and none sees another's memory.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>

namespace demo {

/// What one training step was like.
struct StepResult {
  double loss = 0;
  double seconds = 0;
  int64_t resting_bytes = 0;  ///< before the step
  int64_t peak_bytes = 0;
  int64_t limit_bytes = -1;
  std::array<uint64_t, 2> gradients = {};  ///< a 128-bit hash of all gradients
  std::array<char, 1024> refusal = {};     ///< why it could not be done; empty if it was
};

/// The limit of a step: a count, or one of these.
constexpr int64_t kNoLimit = -1;
constexpr int64_t kLeastLimit = -2;  ///< the least that is known to work

/// Does a step with a limit.
using StepInItsWay = std::function<StepResult(int64_t limit_bytes)>;

/// Processes are made by fork(), which a process that has run ops in parallel does not survive: make all workers before
/// LibTorch computes anything.
class Worker {
 public:
  /// `begin` is called in the new process, when the first step is asked for.
  explicit Worker(const std::function<StepInItsWay()>& begin);
  /// Ends the process.
  ~Worker();
  Worker(Worker&& other) noexcept;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  Worker& operator=(Worker&&) = delete;

  /// Does a step there, and waits for it. Throws encore::Error if the process is gone.
  StepResult step(int64_t limit_bytes = kNoLimit);

 private:
  pid_t process_ = -1;
  int requests_ = -1;
  int results_ = -1;
};

}  // namespace demo
