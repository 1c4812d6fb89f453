// Escaping and number formats.
#include "report/text.h"

#include <array>
#include <cmath>
#include <cstdio>

#include <encore/bytes.h>

#include "base/plain_numbers.h"

namespace encore::report {
namespace {

constexpr const char* kDash = "\u2013";
constexpr const char* kMinus = "\u2212";

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return out;
}

std::string escape_script_json(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string bytes_text(int64_t bytes) {
  return bytes < 0 ? kDash : format_bytes(bytes);
}

std::string seconds_text(double seconds) {
  if (!std::isfinite(seconds)) {
    return kDash;
  }
  // Three significant digits; the limits are where rounding would need a fourth.
  const auto with_unit = [](double value, const char* unit) {
    return number_text(value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f", value) + unit;
  };
  if (seconds == 0) {
    return "0 s";
  }
  if (seconds < 0.9995e-3) {
    return with_unit(seconds * 1e6, " \u00b5s");
  }
  if (seconds < 0.9995) {
    return with_unit(seconds * 1e3, " ms");
  }
  if (seconds < 599.5) {
    return with_unit(seconds, " s");
  }
  return with_unit(seconds / 60, " min");
}

std::string count_text(int64_t count) {
  std::string digits = std::to_string(count);
  const auto first = static_cast<std::ptrdiff_t>(count < 0 ? 1 : 0);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string percent_text(double part, bool sign) {
  if (!std::isfinite(part)) {
    return kDash;
  }
  const double percent = 100 * part;
  // What is not zero must not read as zero.
  const bool tiny = percent != 0 && std::abs(percent) < 0.05;
  const std::string digits = tiny ? "0.1" : number_text("%.1f", std::abs(percent));
  const char* before = percent < 0 && (tiny || digits != "0.0") ? kMinus : sign && percent > 0 ? "+" : "";
  return std::string(tiny ? "<" : "") + before + digits + "%";
}

std::string counted(int64_t count, const std::string& noun) {
  return count_text(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace encore::report
