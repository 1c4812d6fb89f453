// A line chart as HTML: lines in an SVG that stretches with the page, words beside it that don't.
#pragma once

#include <string>
#include <vector>

namespace encore::report {

enum class Unit { kBytes, kSeconds, kCount };

struct ChartPoint {
  double x = 0;
  double y = 0;
};

/// One line. Points are in order of x.
struct Series {
  std::string name;
  std::string style;   ///< CSS class: colour and dashes.
  std::string note;    ///< Beside the name in the legend.
  bool steps = false;  ///< The value holds until the next point, in place of a straight line to it.
  bool dots = false;   ///< Each point is marked.
  bool area = false;   ///< Filled down to the bottom.
  std::vector<ChartPoint> points;
};

/// A line across the whole chart, named in the legend.
struct Rule {
  std::string name;
  std::string style;
  std::string note;
  bool vertical = false;
  double at = 0;
};

/// A span of x with a word above it.
struct Band {
  std::string name;
  std::string style;
  double from = 0;
  double to = 0;
};

/// A point with a ring around it and words beside it.
struct Mark {
  ChartPoint point;
  std::string label;
};

struct Chart {
  std::string id;  ///< Ours, never the user's: it is not escaped.
  std::string title;
  std::string description;  ///< What a person who can't see the chart should know.
  std::string x_name;
  std::string y_name;
  Unit x_unit = Unit::kSeconds;
  Unit y_unit = Unit::kBytes;
  bool y_from_zero = true;
  std::vector<Series> series;
  std::vector<Rule> rules;
  std::vector<Band> bands;
  std::vector<Mark> marks;
};

struct Tick {
  double at = 0;
  std::string label;
};

/// Round numbers within [low, high], at most `count` + 1 of them, in one unit.
std::vector<Tick> ticks(double low, double high, Unit unit, int count);

/// At most about 4 * `columns` points that look the same: of each column the first, least, largest and last.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, size_t columns);

struct DrawnChart {
  std::string html;
  std::string data;  ///< JSON for the page's script: where each point is and what it says.
};

DrawnChart draw(const Chart& chart);

}  // namespace encore::report
