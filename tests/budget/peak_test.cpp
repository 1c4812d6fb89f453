// What a report says was live at the peak.
#include <nlohmann/json.hpp>

#include "budget/net.h"

namespace encore::test {
namespace {

TEST(Budget, WhatWasLiveAtThePeakSumsUpToIt) {
  using nlohmann::json;
  Net net;
  const MemoryScope plain;
  net.loss().backward();
  net.forget();
  for (const int percent : {100, 60}) {
    MemoryBudget budget(plain.start_bytes() + plain.peak_growth_bytes() * percent / 100);
    for (int i = 0; i < 4; ++i) {
      const auto step = budget.step();
      net.loss().backward();
      net.forget();
    }
    const json run = json::parse(budget.run_json("net"));
    int64_t sum = 0;
    for (const json& part : run["peak"]["parts"]) {
      sum += part["bytes"].get<int64_t>();
    }
    const StepReport report = budget.report();
    ASSERT_GT(report.predicted_peak_bytes, 0);
    EXPECT_EQ(sum, report.predicted_peak_bytes);
    EXPECT_NE(run["peak"]["during"], "");
  }
}

}  // namespace
}  // namespace encore::test
