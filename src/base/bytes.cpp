// Byte counts as text.
#include <encore/bytes.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include <encore/error.h>

#include "base/plain_numbers.h"

namespace encore {
namespace {

struct Unit {
  std::string_view name;
  int64_t bytes;
};

constexpr int64_t kKi = 1024;
constexpr std::array<Unit, 10> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"kB", 1'000},
                                          {"MB", 1'000'000},
                                          {"GB", 1'000'000'000},
                                          {"TB", 1'000'000'000'000},
                                          {"KiB", kKi},
                                          {"MiB", kKi* kKi},
                                          {"GiB", kKi* kKi* kKi},
                                          {"TiB", kKi* kKi* kKi* kKi}}};

}  // namespace

int64_t parse_bytes(std::string_view text) {
  const auto refuse = [&](const char* why) -> int64_t {
    throw InvalidArgument("bytes: '" + std::string(text) + "' " + why +
                          "; write a number and a unit, for example 512MiB or 2GB");
  };
  size_t digits = 0;
  while (digits < text.size() && (text[digits] == '.' || (text[digits] >= '0' && text[digits] <= '9'))) {
    ++digits;
  }
  if (digits == 0) {
    return refuse("is not a byte count");
  }
  const std::string number(text.substr(0, digits));
  const PlainNumbers plain_numbers;
  char* end = nullptr;
  const double count = std::strtod(number.c_str(), &end);
  if (*end != '\0') {
    return refuse("is not a byte count");
  }
  int64_t whole = 0;  // a double does not know each of the large ones
  const auto read = std::from_chars(number.data(), number.data() + number.size(), whole);
  const bool is_whole = read.ec == std::errc() && read.ptr == number.data() + number.size();
  std::string_view unit = text.substr(digits);
  while (!unit.empty() && unit.front() == ' ') {
    unit.remove_prefix(1);
  }
  for (const Unit& known : kUnits) {
    if (unit == known.name) {
      constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
      if (is_whole && whole <= kMost / known.bytes) {
        return whole * known.bytes;
      }
      const double bytes = std::floor(count * static_cast<double>(known.bytes));
      if (is_whole || bytes >= static_cast<double>(kMost)) {
        return refuse("is more than 64 bits can count");
      }
      return static_cast<int64_t>(bytes);
    }
  }
  return refuse("has an unknown unit");
}

std::string format_bytes(int64_t bytes) {
  static constexpr std::array<const char*, 4> kNames = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024 && bytes > -1024) {
    return std::to_string(bytes) + " B";
  }
  double count = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (std::abs(count) >= 1024 && unit + 1 < kNames.size()) {
    count /= 1024;
    ++unit;
  }
  const PlainNumbers plain_numbers;
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", count, kNames[unit]);
  return text.data();
}

}  // namespace encore
