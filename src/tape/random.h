// The state of a CPU random generator, taken, compared and put back.
#pragma once

#include "base/mutex.h"
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

/// Of all random ops of the process.
using RandomLock = std::unique_lock<RecursiveMutex>;

/// Whether this thread has the lock of the default generator, as inside torch::multinomial: nobody else can draw then.
bool has_generator();

/// Held from before a random op until after it: two threads that draw from one generator at once could not be replayed.
/// Taken before a tape's lock, never under it: a random op that needs room takes that of the budget's step.
RandomLock lock_random_ops();

/// Generators in other states than they are in, while this lives; at its end each is as it was. Holds the random lock
/// from the first of them on.
class GeneratorsThen {
 public:
  GeneratorsThen() = default;
  ~GeneratorsThen();
  GeneratorsThen(const GeneratorsThen&) = delete;
  GeneratorsThen& operator=(const GeneratorsThen&) = delete;

  /// The state's generator goes into it.
  void enter(const RandomState& then);
  /// From here on the generator is known, and ends in this state.
  void ends_in(const RandomState& now);
  bool knows(const at::Generator& generator) const;
  size_t size() const { return before_.size(); }

 private:
  void lock();

  RandomLock lock_;
  std::vector<RandomState> before_;
};

}  // namespace encore::tape
