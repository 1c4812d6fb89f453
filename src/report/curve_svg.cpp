// Draws a memory/time curve.
#include "report/curve_svg.h"

#include <algorithm>
#include <cmath>

#include <encore/bytes.h>

#include "base/plain_numbers.h"
#include "report/svg.h"
#include "report/text.h"

namespace encore::report {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 420;
constexpr double kLeft = 80;
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBottom = 50;

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
  return svg_element("text", {{"x", svg_number(x)}, {"y", svg_number(y)}, {"text-anchor", anchor}}, escape_html(text)) +
         "\n";
}

/// Time over the plain time, by bytes; what it writes are lines of the picture.
struct Plot {
  Scale x;
  Scale y;
  double unit;

  [[nodiscard]] std::string axes() const {
    std::string out;
    constexpr int kTicks = 5;
    for (int k = 0; k <= kTicks; ++k) {
      const double bytes = x.low + (x.high - x.low) * k / kTicks;
      const double ratio = y.low + (y.high - y.low) * k / kTicks;
      out += text_at(x(bytes), kHeight - kBottom + 18, "middle", format_bytes(static_cast<int64_t>(bytes)));
      out += text_at(kLeft - 8, y(ratio) + 4, "end", number_text("%.3f", ratio));
      out += svg_element("path", {{"stroke", "#ddd"}, {"d", svg_line({kLeft, y(ratio)}, {kWidth - kRight, y(ratio)})}});
      out += "\n";
    }
    out += text_at(kWidth / 2, kHeight - 10, "middle", "peak memory");
    return out +
           svg_element(
               "text",
               {{"transform", "translate(16 " + svg_number(kHeight / 2) + ") rotate(-90)"}, {"text-anchor", "middle"}},
               "time / plain time") +
           "\n";
  }

  [[nodiscard]] std::string steps(const std::vector<CurveSample>& samples, double CurveSample::*time,
                                  std::initializer_list<SvgAttribute> style) const {
    std::vector<SvgPoint> points;
    points.reserve(samples.size());
    for (const CurveSample& sample : samples) {
      points.push_back({x(sample.bytes), y(std::min(std::max(sample.*time / unit, y.low), y.high))});
    }
    return svg_element("g", style, svg_element("path", {{"fill", "none"}, {"d", svg_path(points, /*steps=*/true)}})) +
           "\n";
  }

  [[nodiscard]] std::string dots(const std::vector<CurveSample>& samples) const {
    std::string out;
    for (const CurveSample& sample : samples) {
      out += svg_element("circle", {{"r", "2.5"},
                                    {"fill", "#1f6fb4"},
                                    {"cx", svg_number(x(sample.bytes))},
                                    {"cy", svg_number(y(sample.time / unit))}}) +
             "\n";
    }
    return out;
  }
};

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
  const Plot plot{scale_of(low_bytes, high_bytes, kLeft, kWidth - kRight),
                  scale_of(1, high_ratio, kHeight - kBottom, kTop), unit};
  const std::string inside =
      "\n" + svg_element("rect", {{"width", "720"}, {"height", "420"}, {"fill", "white"}}) + "\n" +
      text_at(kWidth / 2, 22, "middle", title) + plot.axes() +
      plot.steps(samples, &CurveSample::bound, {{"stroke", "#999"}, {"stroke-dasharray", "4 3"}}) +
      plot.steps(samples, &CurveSample::time, {{"stroke", "#1f6fb4"}, {"stroke-width", "2"}}) + plot.dots(samples);
  return svg_element("svg",
                     {{"xmlns", "http://www.w3.org/2000/svg"},
                      {"viewBox", "0 0 720 420"},
                      {"font-family", "sans-serif"},
                      {"font-size", "12"}},
                     inside) +
         "\n";
}

}  // namespace encore::report
