// The planning problem: steps with times, bytes and inputs, in the order in which they are first executed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <encore/export.h>

namespace encore::plan {

/// A smaller form in which a value may rest. While it is being made or undone, both forms are in memory.
struct Variant {
  std::string kind;  ///< What the form is ("pack", "half", "disk", ...); the planner only repeats it.
  int64_t bytes = 0;
  double encode_time = 0;
  double decode_time = 0;
};

/// One computation and the value it leaves behind.
struct Step {
  std::string name;
  double time = 0;
  int64_t bytes = 0;            ///< Of the value, from the start of the step until it is dropped.
  int64_t temp_bytes = 0;       ///< Needed besides, only while the step runs.
  std::vector<int32_t> inputs;  ///< Earlier steps whose values are read. A step read twice counts once.
  std::vector<Variant> variants;
  /// In memory besides all values, and not ours to drop, from the step before this one until this one has run: whatever
  /// is computed again in between pays for it too.
  int64_t background_bytes = 0;
  /// The value can't be let go before this step has run, and not be computed again until then. Not above the step
  /// itself: it is free to go.
  int32_t held_until = -1;
};

/// Steps in execution order: forward and backward of a training step together. `outputs` are the steps whose values
/// must be there at the end.
struct Graph {
  std::vector<Step> steps;
  std::vector<int32_t> outputs;
};

/// Throws InvalidArgument naming the step and the field if a time is negative or not finite, bytes are negative, an
/// input isn't an earlier step, an output doesn't exist, the graph is empty, or sums don't fit into 64 bits.
ENCORE_API void check(const Graph& graph);

/// What running each step once costs, each value dropped after its last use.
struct Baseline {
  double time = 0;
  int64_t peak_bytes = 0;
};
ENCORE_API Baseline baseline(const Graph& graph);

}  // namespace encore::plan
