// Pages, JSON and pictures in a process that writes numbers with a comma.
#include <gtest/gtest.h>

#include "report/curve_svg.h"
#include "sample.h"
#include "support/german_locale.h"

namespace encore::report {
namespace {

TEST(InAGermanLocale, APageIsTheSame) {
  const std::string plain = to_html(sample_run());
  const test::GermanLocale german;
  EXPECT_EQ(to_html(sample_run()), plain);
  EXPECT_TRUE(german.is_on());
}

TEST(InAGermanLocale, JsonAndTracesAreTheSameAndCanBeRead) {
  const std::string json = to_json(sample_run());
  const std::string trace = to_chrome_trace(sample_run());
  const test::GermanLocale german;
  EXPECT_EQ(to_json(sample_run()), json);
  EXPECT_EQ(to_chrome_trace(sample_run()), trace);
  EXPECT_EQ(to_json(run_from_json(json, "run.json")), json);
}

TEST(InAGermanLocale, ACurveIsDrawnTheSame) {
  const std::vector<CurveSample> samples = {{1.5e6, 0.75, 0.5}, {2.5e6, 0.25, 0.25}};
  const std::string plain = curve_svg("gpt", samples, 0.25);
  const test::GermanLocale german;
  EXPECT_EQ(curve_svg("gpt", samples, 0.25), plain);
}

}  // namespace
}  // namespace encore::report
