// The graph in flat arrays, for the inner loops of the planners.
#pragma once

#include <cstdint>
#include <vector>

#include <encore/plan/graph.h>
#include <encore/plan/schedule.h>

namespace encore::plan {

/// A view of a few consecutive numbers.
struct Span {
  const int32_t* first;
  const int32_t* last;
  [[nodiscard]] const int32_t* begin() const { return first; }
  [[nodiscard]] const int32_t* end() const { return last; }
  [[nodiscard]] size_t size() const { return static_cast<size_t>(last - first); }
};

/// Inputs without repetition, and users, of every step. Step n is a sink of no cost that reads the outputs, so that
/// "must be there at the end" is a use like any other.
struct Compact {
  explicit Compact(const Graph& graph);

  /// Of the first computation: what is held until then is there too.
  [[nodiscard]] Span inputs(int32_t i) const { return {in.data() + in_at[i], in.data() + in_at[i + 1]}; }
  /// Of any later computation.
  [[nodiscard]] Span reads(int32_t i) const { return {read.data() + read_at[i], read.data() + read_at[i + 1]}; }
  [[nodiscard]] Span users(int32_t i) const { return {out.data() + out_at[i], out.data() + out_at[i + 1]}; }

  /// Whether the value may be computed again in stage t, that is, between the first computations of t - 1 and t.
  [[nodiscard]] bool may_recompute(int32_t step, int32_t t) const { return t > held_until[step]; }

  int32_t n = 0;  // Steps without the sink.
  std::vector<double> time;
  std::vector<int64_t> bytes;
  std::vector<int64_t> temp;
  std::vector<int64_t> background;
  std::vector<int32_t> held_until;
  std::vector<int32_t> in_at, in, read_at, read, out_at, out;
  double total_time = 0;
};

/// All steps, those first during which the plain run holds most.
std::vector<int32_t> by_bytes_held(const Compact& graph);

/// Each step once, each value dropped after its last use.
Schedule plain_schedule(const Compact& graph);

}  // namespace encore::plan
