// Writing SVG: elements, numbers and paths, for every picture of a report.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace encore::report {

/// To a tenth: nobody sees less.
std::string svg_number(double value);

struct SvgAttribute {
  const char* name;
  std::string value;
};

/// `inside` is markup; attributes are escaped.
std::string svg_element(const char* name, std::initializer_list<SvgAttribute> attributes,
                        const std::string& inside = "");

struct SvgPoint {
  double x = 0;
  double y = 0;
};

/// What goes into a path's `d`: straight from point to point or, with `steps`, across and then up or down.
std::string svg_path(const std::vector<SvgPoint>& points, bool steps);
std::string svg_line(SvgPoint from, SvgPoint to);

}  // namespace encore::report
