// Step functions of memory, as the programme for chains adds and compares them.
#pragma once

#include <cstdint>
#include <vector>

#include <encore/plan/chain.h>

namespace encore::plan {

/// Corners by rising bytes and falling times, and kEnd.
using Curve = std::vector<ChainPoint>;

/// A corner of the best so far, and the split that it comes from.
struct Corner : ChainPoint {
  int32_t split = 0;
};
using Corners = std::vector<Corner>;

/// Far above all bytes, and so that bytes can be added.
constexpr int64_t kNever = INT64_MAX / 4;
/// Ends each curve, so that the corner after one can always be looked at.
constexpr ChainPoint kEnd{2 * kNever, 0};

/// Times that differ by less only differ by the order of additions.
constexpr double kFaster = 1 - 1e-12;
constexpr bool faster(double a, double b) {
  return a < b * kFaster;
}

/// The least time within `bytes`.
double time_within(const Curve& curve, int64_t bytes);

/// One way to divide a subproblem: left(m) + right(m - shift) + time, m >= least.
struct Division {
  const Curve& left;
  const Curve& right;
  int64_t shift;
  int64_t least;
  double time;
  double floor;  ///< No corner is below.
  int32_t split;
};

/// Replaces `out` by those corners of the division that are below `best`, which ends with kEnd.
void corners_below(const Division& division, const Corners& best, Corners* out);

/// The lower envelope of `best` and of corners that are all below it. `scratch` is overwritten.
void merge_into(const Corners& below, Corners* best, Corners* scratch);

}  // namespace encore::plan
