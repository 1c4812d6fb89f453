// Writes to standard output, and finds out whether that is a terminal.
#include "progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace demo {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Progress::Progress() : terminal_(isatty(STDOUT_FILENO) == 1) {}

Progress::~Progress() {
  if (open_) {
    std::printf("\n");
  }
}

void Progress::show(const std::string& line, bool matters) {
  if (terminal_) {
    constexpr const char* kEraseRest = "\033[K";
    std::printf("\r%s%s", line.c_str(), kEraseRest);
    open_ = true;
  } else if (matters) {
    std::printf("%s\n", line.c_str());
  }
  std::fflush(stdout);
}

std::string format_seconds(double seconds) {
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  char text[48];
  if (whole < 60) {
    std::snprintf(text, sizeof text, "%d s", static_cast<int>(whole));
  } else {
    std::snprintf(text, sizeof text, "%lld min %02d s", static_cast<long long>(whole / 60),
                  static_cast<int>(whole % 60));
  }
  return text;
}

}  // namespace demo
