// Draws a memory/time curve.
#include "report/curve_svg.h"

#include <algorithm>
#include <cmath>

#include <encore/bytes.h>

#include "report/text.h"

namespace encore::report {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 420;
constexpr double kLeft = 80;
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBottom = 50;

std::string number(double value, const char* format = "%.2f") {
  return number_text(format, value);
}

struct Scale {
  double low;
  double high;
  double from;
  double to;
  [[nodiscard]] double operator()(double value) const { return from + (to - from) * (value - low) / (high - low); }
};

Scale scale_of(double low, double high, double from, double to) {
  if (!(high > low)) {
    high = low + std::max(1.0, std::abs(low));
  }
  return {low, high, from, to};
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\">" + escape_html(text) +
         "</text>\n";
}

}  // namespace

std::string curve_svg(const std::string& title, const std::vector<CurveSample>& samples, double baseline_time) {
  double low_bytes = INFINITY;
  double high_bytes = 0;
  double high_ratio = 1;
  const double unit = baseline_time > 0 ? baseline_time : 1;
  for (const CurveSample& sample : samples) {
    low_bytes = std::min(low_bytes, sample.bytes);
    high_bytes = std::max(high_bytes, sample.bytes);
    high_ratio = std::max(high_ratio, sample.time / unit);
  }
  low_bytes = std::isfinite(low_bytes) ? low_bytes : 0;
  const Scale x = scale_of(low_bytes, high_bytes, kLeft, kWidth - kRight);
  const Scale y = scale_of(1, high_ratio, kHeight - kBottom, kTop);
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 420\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n";
  out += "<rect width=\"720\" height=\"420\" fill=\"white\"/>\n" + text_at(kWidth / 2, 22, "middle", title);
  constexpr int kTicks = 5;
  for (int k = 0; k <= kTicks; ++k) {
    const double bytes = x.low + (x.high - x.low) * k / kTicks;
    const double ratio = y.low + (y.high - y.low) * k / kTicks;
    out += text_at(x(bytes), kHeight - kBottom + 18, "middle", format_bytes(static_cast<int64_t>(bytes)));
    out += text_at(kLeft - 8, y(ratio) + 4, "end", number(ratio, "%.3f"));
    out += "<line x1=\"" + number(kLeft) + "\" x2=\"" + number(kWidth - kRight) + "\" y1=\"" + number(y(ratio)) +
           "\" y2=\"" + number(y(ratio)) + "\" stroke=\"#ddd\"/>\n";
  }
  out += text_at(kWidth / 2, kHeight - 10, "middle", "peak memory");
  out += "<text transform=\"translate(16 " + number(kHeight / 2) +
         ") rotate(-90)\" text-anchor=\"middle\">time / plain time</text>\n";
  const auto steps = [&](auto value_of, const char* style) {
    std::string path;
    for (const CurveSample& sample : samples) {
      const std::string height = number(y(std::min(std::max(value_of(sample) / unit, y.low), y.high)));
      const std::string across = number(x(sample.bytes));
      const bool first = path.empty();
      path.append(first ? "M" : "H").append(across).append(first ? "," : "V").append(height);
    }
    out += "<path fill=\"none\" " + std::string(style) + " d=\"" + path + "\"/>\n";
  };
  steps([](const CurveSample& sample) { return sample.bound; }, "stroke=\"#999\" stroke-dasharray=\"4 3\"");
  steps([](const CurveSample& sample) { return sample.time; }, "stroke=\"#1f6fb4\" stroke-width=\"2\"");
  for (const CurveSample& sample : samples) {
    out += "<circle r=\"2.5\" fill=\"#1f6fb4\" cx=\"" + number(x(sample.bytes)) + "\" cy=\"" +
           number(y(sample.time / unit)) + "\"/>\n";
  }
  return out + "</svg>\n";
}

}  // namespace encore::report
