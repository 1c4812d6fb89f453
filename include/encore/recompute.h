// How values are brought back, how that is checked, and what it came to.
#pragma once

#include <cstdint>

namespace encore {

/// How values are brought back.
enum class Recompute {
  kReplay,  ///< run the recorded ops again, only those needed, below autograd; the function is called once
  kRerun,   ///< call the function again: for work that ATen can't see (raw pointers, foreign kernels)
};

/// How hard to check that what comes back is what was there.
enum class DeterminismCheck {
  kNone,      ///< only what memory safety needs
  kMetadata,  ///< number, shape, layout and type
  kValues,    ///< every bit, by a 64-bit hash of each dropped value
};

/// What a scope has done so far, checkpoints inside it included. Bytes are of storages, each counted once.
struct ScopeStats {
  int64_t ops_recorded = 0;
  int64_t values_kept = 0;
  int64_t bytes_kept = 0;
  int64_t values_dropped = 0;
  int64_t bytes_dropped = 0;
  int64_t bytes_packed = 0;  ///< that stand for some of the values dropped
  int64_t replays = 0;       ///< times that something was brought back
  int64_t ops_replayed = 0;
  int64_t replay_ns = 0;
  int64_t marked_but_kept = 0;  ///< calls of checkpoint(tensor) with nothing to recompute it from
};

}  // namespace encore
