// Elements and paths of pictures.
#include "report/svg.h"

#include <gtest/gtest.h>

namespace encore::report {
namespace {

TEST(Svg, AttributesAreEscapedAndWhatIsInsideIsMarkup) {
  EXPECT_EQ(svg_element("g", {{"class", "a\"<b>"}}, svg_element("path", {})),
            "<g class=\"a&quot;&lt;b&gt;\"><path/></g>");
}

TEST(Svg, APathGoesStraightOrAcrossAndThenUp) {
  const std::vector<SvgPoint> points = {{0, 1}, {2.25, 3}, {4, 5}};
  EXPECT_EQ(svg_path(points, /*steps=*/false), "M0.0 1.0L2.2 3.0L4.0 5.0");
  EXPECT_EQ(svg_path(points, /*steps=*/true), "M0.0 1.0H2.2V3.0H4.0V5.0");
  EXPECT_EQ(svg_path({}, /*steps=*/true), "");
  EXPECT_EQ(svg_line({0, 1}, {2, 3}), "M0.0 1.0L2.0 3.0");
}

}  // namespace
}  // namespace encore::report
