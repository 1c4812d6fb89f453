// The comparison as a table.
#include <cstdio>

#include <encore/bytes.h>

#include "compare.h"

namespace demo {
namespace {

void print_row(const Way& way, const Way& plain) {
  if (!way.refusal.empty()) {
    std::printf("  %-22s %12s   refused\n      %s\n", way.name.c_str(), encore::format_bytes(way.limit_bytes).c_str(),
                way.refusal.c_str());
    return;
  }
  // What rests between steps is the same in every way; what a step adds is what can be saved.
  const auto added = static_cast<double>(way.peak_bytes - way.resting_bytes);
  const auto plain_added = static_cast<double>(plain.peak_bytes - plain.resting_bytes);
  std::printf("  %-22s %12s %12s %8.0f%% %9.2f s %8.2fx   %s\n", way.name.c_str(),
              way.limit_bytes < 0 ? "" : encore::format_bytes(way.limit_bytes).c_str(),
              encore::format_bytes(way.peak_bytes).c_str(), 100 * added / plain_added, way.step_seconds,
              way.step_seconds / plain.step_seconds,
              &way == &plain      ? "(compared with)"
              : way.bit_identical ? "same bits"
                                  : "DIFFERENT");
}

}  // namespace

void Comparison::print() const {
  const Way& plain = ways_.front();
  std::printf("%s: %s at rest, before each step\n", subject_.name.c_str(),
              encore::format_bytes(plain.resting_bytes).c_str());
  std::printf("  %-22s %12s %12s %9s %11s %9s   %s\n", "", "budget", "peak", "of plain", "a step", "of plain",
              "losses and gradients");
  for (const Way& way : ways_) {
    print_row(way, plain);
  }
  std::printf("\n");
}

}  // namespace demo
