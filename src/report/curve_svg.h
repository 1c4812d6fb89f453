// A memory/time curve as an SVG picture.
#pragma once

#include <string>
#include <vector>

namespace encore::report {

struct CurveSample {
  double bytes = 0;
  double time = 0;
  double bound = 0;  ///< No schedule is faster.
};

/// Steps of time over memory, with the bound as a second line, and both axes labelled. `samples` rise in bytes.
std::string curve_svg(const std::string& title, const std::vector<CurveSample>& samples, double baseline_time);

}  // namespace encore::report
