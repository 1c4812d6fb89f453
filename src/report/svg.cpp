// Elements and paths as text.
#include "report/svg.h"

#include "base/plain_numbers.h"
#include "report/text.h"

namespace encore::report {

std::string svg_number(double value) {
  return number_text("%.1f", value);
}

std::string svg_element(const char* name, std::initializer_list<SvgAttribute> attributes, const std::string& inside) {
  std::string out = std::string("<") + name;
  for (const SvgAttribute& attribute : attributes) {
    out.append(" ").append(attribute.name).append("=\"").append(escape_html(attribute.value)).append("\"");
  }
  return inside.empty() ? out + "/>" : out + ">" + inside + "</" + name + ">";
}

std::string svg_path(const std::vector<SvgPoint>& points, bool steps) {
  std::string path;
  for (const SvgPoint& point : points) {
    const bool first = path.empty();
    path.append(first ? "M" : steps ? "H" : "L").append(svg_number(point.x));
    path.append(!first && steps ? "V" : " ").append(svg_number(point.y));
  }
  return path;
}

std::string svg_line(SvgPoint from, SvgPoint to) {
  return svg_path({from, to}, /*steps=*/false);
}

}  // namespace encore::report
