// What it takes to block all paths from some values to others: a flow of bytes through values.
#pragma once

#include <cstdint>
#include <vector>

namespace encore::plan {

/// Steps that read each other, as lists in a row.
struct Reads {
  std::vector<int32_t> in_at, in, out_at, out;
};

/// The least bytes of values that block every path from a source to a sink. Sources block as well as others, sinks
/// don't. What the pointers show may change between calls.
class Blocking {
 public:
  /// `bytes` is the least that each value takes in memory. Kept by reference, as is all else.
  Blocking(const Reads& reads, const std::vector<int64_t>& bytes, const std::vector<char>& is_source);

  /// Stops at `enough`: what is less is exact. `blocked` is not to be paid for.
  int64_t least(const std::vector<int32_t>& sinks, const std::vector<int32_t>& blocked, int64_t enough);
  /// Where the flow of the last call comes from: as long as these are sources, it isn't less.
  [[nodiscard]] const std::vector<int32_t>& origins() const { return origins_; }
  /// After a call that found less than enough, among values below `end`: those that are cut off by the blocking nearest
  /// to the sources. To ask for these as sinks too would take no more.
  void cut_off(int32_t end, std::vector<uint64_t>* set);
  [[nodiscard]] int64_t work() const { return work_; }

 private:
  // A place in the search, which goes against the flow: 2 i before the bytes of i, 2 i + 1 behind them.
  struct Place {
    int32_t node;
    int32_t next;  // Where it goes on.
    int32_t way;   // How it came here: a read, or one of the below, or kUndo - a read.
  };
  static constexpr int32_t kThrough = -1, kBack = -2, kUndo = -4;

  int64_t search(int32_t sink, int64_t most);
  int64_t send(int64_t most);
  bool enter(int32_t node, int32_t way);

  const Reads& reads_;
  const std::vector<int64_t>& bytes_;
  const std::vector<char>& is_source_;
  std::vector<int32_t> read_of_;  // The place in `in` for each in `out`.
  std::vector<int64_t> along_, through_;
  std::vector<int32_t> used_reads_, used_values_;
  std::vector<int32_t> seen_;
  int32_t stamp_ = 0;
  std::vector<char> closed_;  // Sinks, and what is blocked already.
  std::vector<char> is_sink_;
  std::vector<Place> path_;
  std::vector<int32_t> origins_, open_;
  int64_t work_ = 0;
};

}  // namespace encore::plan
