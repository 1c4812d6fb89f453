// Ticks, thinning, numbers as text.
#include "report/chart.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "report/text.h"

namespace encore::report {
namespace {

std::vector<std::string> labels(double low, double high, Unit unit, int count = 5) {
  std::vector<std::string> found;
  for (const Tick& tick : ticks(low, high, unit, count)) {
    found.push_back(tick.label);
  }
  return found;
}

using Labels = std::vector<std::string>;

TEST(Ticks, AreRoundInTheUnitsPeopleRead) {
  const double mib = 1 << 20;
  EXPECT_EQ(labels(0, 900 * mib, Unit::kBytes), (Labels{"0", "200 MiB", "400 MiB", "600 MiB", "800 MiB"}));
  EXPECT_EQ(labels(0, 3, Unit::kBytes), (Labels{"0", "1 B", "2 B", "3 B"}));
  EXPECT_EQ(labels(0, 0.182, Unit::kSeconds), (Labels{"0", "50 ms", "100 ms", "150 ms"}));
  EXPECT_EQ(labels(0, 1.2, Unit::kSeconds), (Labels{"0", "0.25 s", "0.50 s", "0.75 s", "1.00 s"}));
  EXPECT_EQ(labels(0, 2, Unit::kCount), (Labels{"0", "1", "2"}));
  EXPECT_EQ(labels(0, 12000, Unit::kCount), (Labels{"0", "2,500", "5,000", "7,500", "10,000"}));
}

TEST(Ticks, AreFewAndInsideForAnyRange) {
  for (const Unit unit : {Unit::kBytes, Unit::kSeconds, Unit::kCount}) {
    for (double low : {0.0, 1e-9, 0.3, 77.0, 1e6, 9e18}) {
      for (double span : {1e-9, 0.02, 1.0, 999.0, 1e7, 9e18}) {
        const auto found = ticks(low, low + span, unit, 5);
        EXPECT_LE(found.size(), 7U) << low << " " << span;
        for (const Tick& tick : found) {
          EXPECT_GE(tick.at, low - 1e-6 * span);
          EXPECT_LE(tick.at, low + span + 1e-6 * span);
        }
      }
    }
  }
}

TEST(Thinned, KeepsEveryExtremeAndTheEnds) {
  std::vector<ChartPoint> points;
  for (int k = 0; k < 100000; ++k) {
    points.push_back({k * 1e-3, k == 54321 ? 1e9 : k == 7777 ? -5.0 : k % 10});
  }
  const auto kept = thinned(points, 100);
  EXPECT_LE(kept.size(), 404U);
  EXPECT_GE(kept.size(), 100U);
  const auto has = [&](double y) {
    return std::any_of(kept.begin(), kept.end(), [&](const ChartPoint& p) { return p.y == y; });
  };
  EXPECT_TRUE(has(1e9));
  EXPECT_TRUE(has(-5));
  EXPECT_EQ(kept.front().x, points.front().x);
  EXPECT_EQ(kept.back().x, points.back().x);
  for (size_t k = 1; k < kept.size(); ++k) {
    EXPECT_LE(kept[k - 1].x, kept[k].x);
  }
}

TEST(Draw, NeverWritesWhatIsNotANumber) {
  for (const auto& points : std::vector<std::vector<ChartPoint>>{
           {}, {{0, 0}}, {{5, 7}, {5, 7}}, {{0, 0}, {1e-12, 9.2e18}}, {{9e18, 0.25}, {9.1e18, 0.25}}}) {
    Chart chart;
    chart.id = "c";
    chart.series = {{"a", "plain", "", true, true, true, points}};
    chart.rules = {{"r", "budget", "", false, 0}, {"r", "budget", "", true, 9.2e18}};
    for (const bool zero : {true, false}) {
      chart.y_from_zero = zero;
      const DrawnChart drawn = draw(chart);
      for (const char* word : {"nan", "inf", "null"}) {
        EXPECT_EQ(drawn.html.find(word), std::string::npos) << word;
        EXPECT_EQ(drawn.data.find(word), std::string::npos) << word;
      }
    }
  }
}

TEST(Draw, ARuleFarAwayDoesNotFlattenTheLines) {
  Chart chart;
  chart.id = "c";
  chart.series = {{"a", "plain", "", false, false, false, {{0, 0}, {1, 100}}}};
  chart.rules = {{"r", "budget", "", false, 150}};
  EXPECT_NE(draw(chart).html.find("<path class=\"rule budget\" d=\"M0.0"), std::string::npos);
  chart.rules[0].at = 1e6;
  EXPECT_EQ(draw(chart).html.find("<path class=\"rule budget\" d=\"M0.0"), std::string::npos);
}

TEST(Text, NumbersAsPeopleReadThem) {
  EXPECT_EQ(bytes_text(-1), "\u2013");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(seconds_text(NAN), "\u2013");
  EXPECT_EQ(seconds_text(0), "0 s");
  EXPECT_EQ(seconds_text(0.1824), "182 ms");
  EXPECT_EQ(seconds_text(0.9999), "1.00 s");
  EXPECT_EQ(seconds_text(0.00001234), "12.3 \u00b5s");
  EXPECT_EQ(seconds_text(1200), "20.0 min");
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(-1234567), "-1,234,567");
  EXPECT_EQ(percent_text(0.0512, true), "+5.1%");
  EXPECT_EQ(percent_text(-0.5), "\u221250.0%");
  EXPECT_EQ(percent_text(0), "0.0%");
  EXPECT_EQ(percent_text(1e-9, true), "<+0.1%");
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(5000, "value"), "5,000 values");
}

TEST(Text, Escapes) {
  EXPECT_EQ(escape_html("<a href=\"x\" b='y'>&\n"), "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp; ");
  EXPECT_EQ(escape_script_json("\"</script><!--&\""), "\"\\u003c/script\\u003e\\u003c!--\\u0026\"");
}

}  // namespace
}  // namespace encore::report
