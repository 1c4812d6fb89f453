// The comparison as a table, and as a sentence.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <encore/bytes.h>

#include "compare.h"

namespace demo {
namespace {

void print_row(const Way& way, const Way& plain) {
  if (!way.refusal.empty()) {
    std::printf("  %-22s %12s   refused\n      %s\n", way.name.c_str(),
                way.limit_bytes < 0 ? "" : encore::format_bytes(way.limit_bytes).c_str(), way.refusal.c_str());
    return;
  }
  // What rests between steps is the same in every way; what a step adds is what can be saved.
  const auto added = static_cast<double>(way.peak_bytes - way.resting_bytes);
  const auto plain_added = static_cast<double>(plain.peak_bytes - plain.resting_bytes);
  std::printf("  %-22s %12s %12s %8.0f%% %9.2f s %8.2fx   %s\n", way.name.c_str(),
              way.limit_bytes < 0 ? "" : encore::format_bytes(way.limit_bytes).c_str(),
              encore::format_bytes(way.peak_bytes).c_str(), 100 * added / plain_added, way.least_seconds(),
              way.least_seconds() / plain.least_seconds(),
              &way == &plain      ? "(compared with)"
              : way.bit_identical ? "same bits"
                                  : "DIFFERENT");
}

/// How much the rounds of one way differ (the middle one from the least), and how much the ways do, as parts of the
/// plain step.
struct Spread {
  double of_rounds = 0;
  double of_ways = 0;
};

Spread spread_of(const std::vector<Way>& ways) {
  Spread spread;
  const double plain = ways.front().least_seconds();
  for (const Way& way : ways) {
    if (way.refusal.empty()) {
      spread.of_rounds = std::max(spread.of_rounds, (way.median_seconds() - way.least_seconds()) / plain);
      spread.of_ways = std::max(spread.of_ways, std::abs(way.least_seconds() - plain) / plain);
    }
  }
  return spread;
}

std::string slower_or_faster(const Way& way, const Way& plain) {
  const double extra = 100 * (way.least_seconds() / plain.least_seconds() - 1);
  char text[48];
  std::snprintf(text, sizeof text, "%.0f%% %s", std::abs(extra), extra < 0 ? "faster" : "slower");
  return std::abs(extra) < 0.5 ? "as fast" : text;
}

}  // namespace

bool Comparison::times_tell() const {
  const Spread spread = spread_of(ways_);
  return spread.of_rounds <= spread.of_ways;
}

void Comparison::print() const {
  const Way& plain = ways_.front();
  std::printf("%s: %s at rest, before each step; least time of %zu rounds, in which all ways took turns\n",
              name_.c_str(), encore::format_bytes(plain.resting_bytes).c_str(), plain.seconds.size());
  std::printf("  %-22s %12s %12s %9s %11s %9s   %s\n", "", "budget", "peak", "of plain", "a step", "of plain",
              "losses and gradients");
  for (const Way& way : ways_) {
    print_row(way, plain);
  }
  const Spread spread = spread_of(ways_);
  if (!times_tell()) {
    std::printf(
        "  Rounds of one way differ by %.0f%%, more than the ways do (%.0f%%): something else runs on this machine, "
        "and these times say little.\n",
        100 * spread.of_rounds, 100 * spread.of_ways);
  } else if (spread.of_rounds > 0.1) {
    std::printf("  Rounds of one way differ by %.0f%%: do not read much into smaller differences of time.\n",
                100 * spread.of_rounds);
  }
  std::printf("\n");
}

std::string Comparison::summary() const {
  const Way& plain = ways_.front();
  std::string text = name_ + ": plain needs " + encore::format_bytes(plain.peak_bytes);
  for (const Way& way : ways_) {
    if (way.percent >= 0 && way.percent < 100 && way.refusal.empty()) {
      text += (way.percent > 0 ? "; in " : "; in no more than ") + encore::format_bytes(way.peak_bytes) +
              (times_tell() ? " it is " + slower_or_faster(way, plain) : " it trains as well");
    }
  }
  return text + (times_tell() ? "." : "; this machine was too busy to compare times.");
}

}  // namespace demo
