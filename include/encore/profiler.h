// What checkpoints have saved, and what that cost, measured.
//
// Saved bytes are those of values that autograd would have kept, that a checkpoint dropped, and that were really gone
// from memory when the next backward began; before one, when the report is asked for. A dropped value that somebody
// else still holds saved nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <encore/export.h>

namespace encore {

/// One replay.
struct ReplaySample {
  int64_t ops = 0;
  int64_t duration_ns = 0;  ///< without replays of outer checkpoints that it set off
  int64_t live_bytes_before = 0;
  int64_t live_bytes_after = 0;
};

/// All calls of the checkpoints of one name.
struct CheckpointRow {
  std::string name;  ///< names of the scopes and checkpoints around it, and its own: "decoder/block3"
  int64_t calls = 0;
  int64_t values_dropped = 0;
  int64_t values_kept = 0;
  int64_t bytes_saved = 0;        ///< of dropped values, really freed
  int64_t bytes_still_alive = 0;  ///< of dropped values that something else kept in memory
  int64_t bytes_kept = 0;         ///< of values that the policy kept, or that can't be recomputed
  int64_t ops_replayed = 0;
  int64_t replay_ns = 0;
  std::vector<ReplaySample> replays;
};

/// A checkpoint that saved nothing.
struct CheckpointWarning {
  std::string name;
  std::string reason;
  int64_t calls = 0;
};

struct ENCORE_API ProfilerReport {
  int64_t memory_saved_bytes = 0;  ///< storages that several checkpoints dropped count once
  int64_t checkpoint_count = 0;    ///< calls, segments and marked tensors
  int64_t ops_replayed = 0;
  int64_t replay_ns = 0;
  std::vector<CheckpointRow> rows;  ///< in the order in which they first ended
  std::vector<CheckpointWarning> warnings;

  /// A table.
  std::string text() const;
};

/// Watches the checkpoints of the whole process, all threads, while it lives. Profilers may nest and overlap.
///
///     CheckpointProfiler profiler;
///     train_step();
///     std::cout << profiler.report().text();
class ENCORE_API CheckpointProfiler {
 public:
  CheckpointProfiler();
  ~CheckpointProfiler();
  CheckpointProfiler(const CheckpointProfiler&) = delete;
  CheckpointProfiler& operator=(const CheckpointProfiler&) = delete;

  /// What it has seen so far. Any thread may call.
  ProfilerReport report() const;

  /// The same without a scope: one tally for the process, from start_tracking to stop_tracking. Starting twice goes
  /// on; stopping keeps the figures; reset() begins anew. The figures throw ScopeError before the first start: those of
  /// a scoped profiler are in its report().
  static void start_tracking();
  static void stop_tracking();
  static void reset();
  static int64_t memory_saved();
  static int64_t checkpoint_count();
  static ProfilerReport tracked();

 private:
  class Tally;
  struct Process;
  std::shared_ptr<Tally> tally_;
};

}  // namespace encore
