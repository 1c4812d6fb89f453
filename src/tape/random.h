// The state of a CPU random generator, taken, compared and put back.
#pragma once

#include "tape/torch.h"

namespace encore::tape {

class RandomState {
 public:
  /// The state of `generator` now. Throws for a generator that is not on the CPU.
  explicit RandomState(at::Generator generator);

  /// True if the generator is no longer in this state.
  bool moved_on() const { return !(RandomState(generator_) == *this); }

  /// True for the same state, of whatever generator: both would draw the same numbers.
  bool operator==(const RandomState& other) const;

  /// Puts the generator back into this state.
  void restore() const;

  const at::Generator& generator() const { return generator_; }

 private:
  mutable at::Generator generator_;  // its mutex is not const
  at::mt19937_data_pod engine_;
  decltype(std::declval<at::CPUGeneratorImpl>().next_float_normal_sample()) next_float_;
  decltype(std::declval<at::CPUGeneratorImpl>().next_double_normal_sample()) next_double_;
};

/// The mutex of all random ops of the process, which knows whether this thread has it.
class RandomMutex {
 public:
  void lock();
  void unlock();
  static bool is_mine();

 private:
  std::recursive_mutex mutex_;
};
using RandomLock = std::unique_lock<RandomMutex>;

/// Held from before a random op until after it: two threads that draw from one generator at once could not be replayed.
RandomLock lock_random_ops();

}  // namespace encore::tape
