// How far the work is: one line that is rewritten on a terminal, a line now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace demo {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start);

class Progress {
 public:
  Progress();
  /// Leaves the last line standing.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Where output is not a terminal, only lines that `matter` are shown.
  void show(const std::string& line, bool matters);

 private:
  bool terminal_;
  bool open_ = false;
};

/// "48 s", "3 min 05 s".
std::string format_seconds(double seconds);

}  // namespace demo
