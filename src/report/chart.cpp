// Scales, ticks, and the drawing of a chart.
#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/plain_numbers.h"
#include "report/svg.h"
#include "report/text.h"

namespace encore::report {
namespace {

using json = nlohmann::ordered_json;

// The SVG's own coordinates. It is stretched to the plot, so they are parts of width and height, not pixels.
constexpr double kSide = 1000;
constexpr size_t kColumns = 500;
// A rule much higher than every line would press the lines flat; it is named in the legend alone then.
constexpr double kRuleReach = 2.5;
constexpr double kLeastSpan = 0.1;
// Of the larger end: below this, doubles can't tell the places within a range apart.
constexpr double kLeastPart = 1e-9;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] double part(double value) const { return (value - low) / (high - low); }
  [[nodiscard]] bool holds(double value) const { return value >= low && value <= high; }
  // Never empty, so that part() is always a number.
  void settle() {
    if (!(low <= high)) {
      low = 0;
      high = 1;
    }
    if (!(high - low > kLeastPart * std::abs(high))) {
      high = low + std::max(1e-9, std::abs(low) * 0.1);
    }
  }
};

struct Scales {
  Range x;
  Range y;
  std::vector<Tick> x_ticks;
  std::vector<Tick> y_ticks;
};

// A step of 1, 2, 2.5 or 5 times a power of ten, with the decimals that it needs.
struct TickGap {
  double size = 1;
  int decimals = 0;
};

TickGap round_step(double rough, bool whole) {
  rough = whole ? std::max(1.0, rough) : rough;
  const double exponent = std::floor(std::log10(rough));
  const double power = std::pow(10.0, exponent);
  const int decimals = std::clamp(static_cast<int>(-exponent), 0, 12);
  for (const double digit : {1.0, 2.0, 2.5, 5.0}) {
    const bool needs_decimal = digit == 2.5 && exponent <= 0;
    if (needs_decimal && whole) {
      continue;
    }
    if (digit * power >= rough * (1 - 1e-9)) {
      return {digit * power, decimals + (needs_decimal ? 1 : 0)};
    }
  }
  return {10 * power, std::max(0, decimals - 1)};
}

struct UnitName {
  double size;
  const char* name;
};

UnitName unit_for(double high, Unit unit) {
  static constexpr UnitName kBytes[] = {
      {1099511627776.0, "TiB"}, {1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}, {1, "B"}};
  static constexpr UnitName kSeconds[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "\u00b5s"}};
  if (unit == Unit::kCount) {
    return {1, ""};
  }
  UnitName chosen{};
  const auto choose = [&](const auto& names) {
    for (const UnitName& name : names) {
      chosen = name;
      if (std::abs(high) >= name.size) {
        break;
      }
    }
  };
  unit == Unit::kBytes ? choose(kBytes) : choose(kSeconds);
  return chosen;
}

std::string value_text(double value, Unit unit) {
  switch (unit) {
    case Unit::kBytes:
      return bytes_text(static_cast<int64_t>(std::min(value, 9.2e18)));
    case Unit::kSeconds:
      return seconds_text(value);
    case Unit::kCount:
      return count_text(static_cast<int64_t>(std::min(value, 9.2e18)));
  }
  return "";
}

Scales scales_of(const Chart& chart) {
  Scales scales;
  for (const Series& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      scales.x.take(point.x);
      scales.y.take(point.y);
    }
  }
  if (chart.y_from_zero) {
    scales.y.take(0);
  }
  scales.x.settle();
  scales.y.settle();
  for (const Rule& rule : chart.rules) {
    Range& range = rule.vertical ? scales.x : scales.y;
    const double span = range.high - range.low;
    if (rule.at <= range.low + kRuleReach * span && rule.at >= range.high - kRuleReach * span) {
      range.take(rule.at);
    }
  }
  // Differences of a few bytes must not fill the chart as if they mattered.
  const double least_span = kLeastSpan * std::max(std::abs(scales.y.low), std::abs(scales.y.high));
  if (const double lacking = least_span - (scales.y.high - scales.y.low); lacking > 0) {
    scales.y.low -= lacking / 2;
    scales.y.high += lacking / 2;
  }
  // Some air, so that no line touches the frame.
  const double air = 0.06 * (scales.y.high - scales.y.low);
  scales.y.high += air;
  if (!chart.y_from_zero) {
    scales.y.low = std::max(scales.y.low >= 0 ? 0.0 : scales.y.low - air, scales.y.low - air);
  }
  const bool pad_x = std::any_of(chart.series.begin(), chart.series.end(), [](const Series& s) { return s.dots; });
  if (pad_x) {
    const double side = 0.03 * (scales.x.high - scales.x.low);
    scales.x.low -= side;
    scales.x.high += side;
  }
  scales.x_ticks = ticks(scales.x.low, scales.x.high, chart.x_unit, 6);
  scales.y_ticks = ticks(scales.y.low, scales.y.high, chart.y_unit, 5);
  return scales;
}

std::string percent_style(const char* side, double part) {
  return std::string(side) + ":" + number_text("%.2f", 100 * part) + "%";
}

std::vector<SvgPoint> placed(const std::vector<ChartPoint>& points, const Scales& scales) {
  std::vector<SvgPoint> places;
  places.reserve(points.size());
  for (const ChartPoint& point : points) {
    places.push_back({kSide * scales.x.part(point.x), kSide * (1 - scales.y.part(point.y))});
  }
  return places;
}

std::string svg_of(const Series& series, const Scales& scales) {
  const std::vector<SvgPoint> points = placed(thinned(series.points, kColumns), scales);
  if (points.empty()) {
    return "";
  }
  std::string out;
  const std::string path = svg_path(points, series.steps);
  if (series.area) {
    out += svg_element(
        "path", {{"class", "area " + series.style}, {"d", path + "V1000H" + svg_number(points.front().x) + "Z"}});
  }
  out += svg_element("path", {{"class", "line " + series.style}, {"data-series", series.name}, {"d", path}}) + "\n";
  if (series.dots && points.size() <= 120) {
    // A line of no length with round ends is a dot that the stretching leaves round.
    std::string dots;
    for (const SvgPoint& point : points) {
      dots += svg_path({point}, /*steps=*/false) + "h0";
    }
    out += svg_element("path", {{"class", "dots " + series.style}, {"d", dots}}) + "\n";
  }
  return out;
}

std::string svg_of(const Chart& chart, const Scales& scales) {
  std::string out = svg_element("title", {{"id", chart.id + "-title"}}, escape_html(chart.title)) +
                    svg_element("desc", {{"id", chart.id + "-desc"}}, escape_html(chart.description)) + "\n";
  for (const Band& band : chart.bands) {
    const double from = kSide * std::clamp(scales.x.part(band.from), 0.0, 1.0);
    const double to = kSide * std::clamp(scales.x.part(band.to), 0.0, 1.0);
    out += svg_element("rect", {{"class", "band " + band.style},
                                {"x", svg_number(from)},
                                {"y", "0"},
                                {"width", svg_number(std::max(0.0, to - from))},
                                {"height", "1000"}});
  }
  const auto line = [&](const std::string& style, bool vertical, double part) {
    const double at = kSide * part;
    return svg_element(
        "path", {{"class", style}, {"d", vertical ? svg_line({at, 0}, {at, kSide}) : svg_line({0, at}, {kSide, at})}});
  };
  for (const Tick& tick : scales.y_ticks) {
    out += line("grid", false, 1 - scales.y.part(tick.at));
  }
  for (const Series& series : chart.series) {
    out += svg_of(series, scales);
  }
  for (const Rule& rule : chart.rules) {
    if ((rule.vertical ? scales.x : scales.y).holds(rule.at)) {
      out += line("rule " + rule.style, rule.vertical,
                  rule.vertical ? scales.x.part(rule.at) : 1 - scales.y.part(rule.at));
    }
  }
  return svg_element("svg",
                     {{"viewBox", "0 0 1000 1000"},
                      {"preserveAspectRatio", "none"},
                      {"role", "img"},
                      {"aria-labelledby", chart.id + "-title " + chart.id + "-desc"}},
                     out) +
         "\n";
}

std::string legend_of(const Chart& chart) {
  std::string out = "<ul class=\"legend\">";
  const auto entry = [&](const std::string& style, const std::string& name, const std::string& note) {
    out += "<li>" +
           svg_element("svg", {{"class", "key"}, {"viewBox", "0 0 24 10"}, {"aria-hidden", "true"}},
                       svg_element("path", {{"class", style}, {"d", "M1 5H23"}})) +
           escape_html(name) + (note.empty() ? "" : " <b>" + escape_html(note) + "</b>") + "</li>";
  };
  for (const Series& series : chart.series) {
    entry("line " + series.style, series.name, series.note);
  }
  for (const Rule& rule : chart.rules) {
    entry("rule " + rule.style, rule.name, rule.note);
  }
  return out + "</ul>\n";
}

std::string words_in_plot(const Chart& chart, const Scales& scales) {
  std::string out;
  for (const Band& band : chart.bands) {
    const double from = std::clamp(scales.x.part(band.from), 0.0, 1.0);
    const double to = std::clamp(scales.x.part(band.to), 0.0, 1.0);
    out += "<span class=\"band-name\" style=\"" + percent_style("left", from) + ";" +
           percent_style("width", std::max(0.0, to - from)) + "\">" + escape_html(band.name) + "</span>";
  }
  for (const Mark& mark : chart.marks) {
    const double x = scales.x.part(mark.point.x);
    const double y = scales.y.part(mark.point.y);
    const std::string height = ";" + percent_style("bottom", y);
    out += "<span class=\"ring\" style=\"" + percent_style("left", x) + height + "\"></span>";
    // Words go to the side that has room, and below the point when it is near the top.
    const bool before = x > 0.5;
    out += std::string("<span class=\"mark") + (before ? " before" : "") + (y > 0.85 ? " below" : "") + "\" style=\"" +
           (before ? percent_style("right", 1 - x) : percent_style("left", x)) + height + "\">" +
           escape_html(mark.label) + "</span>";
  }
  return out;
}

std::string data_of(const Chart& chart, const Scales& scales) {
  json all = json::array();
  for (const Series& series : chart.series) {
    json points = json::array();
    for (const ChartPoint& point : thinned(series.points, kColumns)) {
      points.push_back({std::round(kSide * scales.x.part(point.x)) / kSide,
                        std::round(kSide * scales.y.part(point.y)) / kSide, value_text(point.x, chart.x_unit),
                        value_text(point.y, chart.y_unit)});
    }
    all.push_back({{"name", series.name}, {"style", series.style}, {"steps", series.steps}, {"points", points}});
  }
  return json{{"x", chart.x_name}, {"series", all}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::vector<Tick> ticks(double low, double high, Unit unit, int count) {
  std::vector<Tick> found;
  if (!(high - low > kLeastPart * std::abs(high))) {
    return found;
  }
  const UnitName name = unit_for(std::max(std::abs(low), std::abs(high)), unit);
  const bool whole = unit == Unit::kCount || (unit == Unit::kBytes && name.size == 1);
  const auto [step, decimals] = round_step((high - low) / name.size / count, whole);
  const std::string format = "%." + std::to_string(decimals) + "f";
  const double first = std::ceil(low / name.size / step - 1e-9);
  const double slack = 1e-9 * (high - low);
  for (int k = 0; k <= count + 1; ++k) {
    const double at = (first + k) * step;
    if (at * name.size < low - slack || at * name.size > high + slack) {
      continue;
    }
    const std::string number = at == 0                ? "0"
                               : unit == Unit::kCount ? count_text(static_cast<int64_t>(at))
                                                      : number_text(format.c_str(), at);
    found.push_back({at * name.size, number + (at == 0 || *name.name == '\0' ? "" : " ") + (at == 0 ? "" : name.name)});
  }
  return found;
}

std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, size_t columns) {
  if (points.size() <= 4 * columns) {
    return points;
  }
  const double low = points.front().x;
  const double width = (points.back().x - low) / static_cast<double>(columns);
  std::vector<ChartPoint> kept;
  for (size_t begin = 0; begin < points.size();) {
    const double column = width > 0 ? std::floor((points[begin].x - low) / width) : 0;
    size_t end = begin;
    size_t least = begin;
    size_t largest = begin;
    while (end < points.size() && (width > 0 ? std::floor((points[end].x - low) / width) : 0) == column) {
      least = points[end].y < points[least].y ? end : least;
      largest = points[end].y > points[largest].y ? end : largest;
      ++end;
    }
    std::vector<size_t> chosen{begin, least, largest, end - 1};
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    for (const size_t at : chosen) {
      kept.push_back(points[at]);
    }
    begin = end;
  }
  return kept;
}

DrawnChart draw(const Chart& chart) {
  const Scales scales = scales_of(chart);
  std::string out = legend_of(chart);
  out += "<div class=\"frame\" id=\"" + chart.id + "-chart\" data-chart=\"" + chart.id +
         "\" tabindex=\"0\" role=\"group\" aria-label=\"" + escape_html(chart.title) +
         ": left and right arrow keys read the points\">\n<p class=\"y-name\" aria-hidden=\"true\">" +
         escape_html(chart.y_name) + "</p><div class=\"y-ticks\" aria-hidden=\"true\">";
  for (const Tick& tick : scales.y_ticks) {
    out += "<span style=\"" + percent_style("bottom", scales.y.part(tick.at)) + "\">" + tick.label + "</span>";
  }
  out += "</div><div class=\"plot\">" + svg_of(chart, scales) + "<div aria-hidden=\"true\">" +
         words_in_plot(chart, scales) + "</div></div><div class=\"x-ticks\" aria-hidden=\"true\">";
  for (const Tick& tick : scales.x_ticks) {
    out += "<span style=\"" + percent_style("left", scales.x.part(tick.at)) + "\">" + tick.label + "</span>";
  }
  out += "</div><p class=\"x-name\" aria-hidden=\"true\">" + escape_html(chart.x_name) +
         "</p><p class=\"readout visually-hidden\" aria-live=\"polite\"></p></div>\n";
  return {out, data_of(chart, scales)};
}

}  // namespace encore::report
