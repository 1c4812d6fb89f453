// Chains of stages: the special case that is solved exactly.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <encore/export.h>
#include <encore/plan/graph.h>
#include <encore/plan/schedule.h>

namespace encore::plan {

/// One stage of a chain: it reads the output of the stage before, and its backward reads that, the gradient of its own
/// output, and all it saved.
struct Stage {
  double forward_time = 0;
  double backward_time = 0;
  int64_t output_bytes = 0;         ///< Of the output, and of the gradient of the output.
  int64_t saved_bytes = 0;          ///< All that backward needs of this stage, the output included.
  int64_t forward_temp_bytes = 0;   ///< While the stage runs forward, besides what it leaves and saves.
  int64_t backward_temp_bytes = 0;  ///< While its backward runs, besides what that reads and leaves.
};

struct Chain {
  int64_t input_bytes = 0;  ///< Of the first stage's input, and of its gradient, the result.
  std::vector<Stage> stages;
};

/// Throws InvalidArgument naming the stage and the field.
ENCORE_API void check(const Chain& chain);

/// The chain as a graph of 3 L + 2 steps, L being the number of stages: the input, then for each stage what it saves
/// besides its output (this takes the forward time) and its output (at no further time), the gradient of the last
/// output, then the backward steps, last stage first. So what a stage saves is in memory while it runs, and the peak of
/// a chain is the peak of this graph. The input is a step without time that a chain's schedule never repeats.
ENCORE_API Graph to_graph(const Chain& chain);

/// Steps of to_graph(). Stages count from 1; stage 0's output is the input.
struct ChainSteps {
  int32_t stages = 0;
  [[nodiscard]] int32_t saved(int32_t stage) const { return 2 * stage - 1; }
  [[nodiscard]] int32_t output(int32_t stage) const { return 2 * stage; }
  /// The gradient of a stage's output; gradient(stages) is the seed and gradient(s - 1) the backward step of stage s.
  [[nodiscard]] int32_t gradient(int32_t stage) const { return 3 * stages + 1 - stage; }
};

/// One corner of the memory/time curve: with at least this budget, this time.
struct ChainPoint {
  int64_t bytes = 0;
  double time = 0;
};

struct ChainOptions {
  /// Budgets above this are of no interest. 0: all are.
  int64_t max_bytes = 0;
  /// Exact to the byte, at whatever cost. Otherwise a corner of the curve may lie up to max_rounding of its budget to
  /// the right of the true one; never to the left.
  bool exact = false;
  double max_rounding = 0.001;
};

/// The optimum over persistent schedules (a value once kept is kept until its backward ran) at every budget at once.
/// Copies share the solution; const functions may be called from any thread.
class ENCORE_API ChainSolution {
 public:
  /// Least budgets and least times, rising bytes and falling times. Never empty.
  [[nodiscard]] const std::vector<ChainPoint>& curve() const;
  /// How far a corner may lie to the right of the true one, as a part of its budget. 0 if the curve is exact.
  [[nodiscard]] double rounding() const;
  [[nodiscard]] int64_t min_feasible_bytes() const { return curve().front().bytes; }
  /// The schedule of the best corner within `budget_bytes`, for to_graph(). Throws InvalidArgument below the least.
  [[nodiscard]] Schedule schedule(int64_t budget_bytes) const;

 private:
  friend ENCORE_API ChainSolution solve(const Chain& chain, const ChainOptions& options);
  struct State;
  std::shared_ptr<const State> state_;
};

ENCORE_API ChainSolution solve(const Chain& chain, const ChainOptions& options = {});

}  // namespace encore::plan
