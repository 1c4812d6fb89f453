// The random generators of a chain of layers, put back while layers are called again.
#pragma once

#include <encore/error.h>

#include "record/generators.h"
#include "tape/random.h"

namespace encore {

/// Generators as some layer left them; as they are now again afterwards.
class GeneratorsThen {
 public:
  explicit GeneratorsThen(const std::vector<tape::RandomState>& then) : lock_(tape::lock_random_ops()) {
    for (const tape::RandomState& state : then) {
      now_.emplace_back(state.generator());
      state.restore();
    }
  }
  ~GeneratorsThen() {
    for (const tape::RandomState& state : now_) {
      state.restore();
    }
  }
  GeneratorsThen(const GeneratorsThen&) = delete;
  GeneratorsThen& operator=(const GeneratorsThen&) = delete;

  /// The layer was called again: throws if it drew from yet another generator.
  void check(int64_t layer) {
    const size_t known = now_.size();
    for (const tape::RandomState& state : watch_.take()) {
      if (!holds(now_, state.generator())) {
        now_.push_back(state);
      }
    }
    if (now_.size() > known) {
      throw DeterminismError("layers: layer " + std::to_string(layer) +
                             " draws from a generator of its own, from which it did not draw in checkpointed_forward; "
                             "run the layers with checkpointed_forward, or draw from the default generator");
    }
  }

  static bool holds(const std::vector<tape::RandomState>& states, const at::Generator& generator) {
    return std::any_of(states.begin(), states.end(), [&](const auto& state) { return state.generator() == generator; });
  }

 private:
  tape::RandomLock lock_;
  std::vector<tape::RandomState> now_;
  record::GeneratorWatch watch_;
};

}  // namespace encore
