// The random generators of a chain of layers, put back while layers are called again.
#pragma once

#include <encore/error.h>

#include "record/generators.h"
#include "tape/random.h"

namespace encore {

/// Generators as some layer left them; as they are now again afterwards.
class LayersThen {
 public:
  explicit LayersThen(const std::vector<tape::RandomState>& then) {
    std::for_each(then.begin(), then.end(), [&](const tape::RandomState& state) { generators_.enter(state); });
  }

  /// The layer was called again: throws if it drew from yet another generator.
  void check(int64_t layer) {
    const size_t known = generators_.size();
    for (const tape::RandomState& state : watch_.take()) {
      if (!generators_.knows(state.generator())) {
        generators_.ends_in(state);
      }
    }
    if (generators_.size() > known) {
      throw DeterminismError("layers: layer " + std::to_string(layer) +
                             " draws from a generator of its own, from which it did not draw in checkpointed_forward; "
                             "run the layers with checkpointed_forward, or draw from the default generator");
    }
  }

  static bool holds(const std::vector<tape::RandomState>& states, const at::Generator& generator) {
    return std::any_of(states.begin(), states.end(), [&](const auto& state) { return state.generator() == generator; });
  }

 private:
  tape::GeneratorsThen generators_;
  record::GeneratorWatch watch_;
};

}  // namespace encore
