// How long it takes to bring values back.
#pragma once

#include "record/stream.h"

namespace encore::region {

/// Times one replay, or a function that is called again, while it lives.
class ReplayTimer {
 public:
  ReplayTimer();
  ~ReplayTimer();
  ReplayTimer(const ReplayTimer&) = delete;
  ReplayTimer& operator=(const ReplayTimer&) = delete;

  /// It has ended well: tells who listens to the process.
  record::ReplayEvent done(const std::string& label, int64_t ops) const;

 private:
  int64_t live_bytes_;
  int64_t outer_nested_ns_;
  int64_t start_ns_;
};

}  // namespace encore::region
