// The Chrome trace: what Perfetto needs of it.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/run.h"
#include "report/sample.h"

namespace encore::report {
namespace {

using nlohmann::json;

std::vector<json> events_of(const report::Run& run, const std::string& kind) {
  std::vector<json> found;
  const json root = json::parse(to_chrome_trace(run));
  for (const json& event : root["traceEvents"]) {
    if (event["ph"] == kind) {
      found.push_back(event);
    }
  }
  return found;
}

TEST(Trace, EventsAreCompleteAndInMicroseconds) {
  const auto events = events_of(sample_run(), "X");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0], json::parse(R"({"name": "aten::mm", "cat": "forward", "ph": "X", "ts": 10.0, "dur": 20.5,
                                       "pid": 1, "tid": 0})"));
  EXPECT_EQ(events[1]["tid"], 7);
  EXPECT_EQ(events[1]["cat"], "replay");
}

TEST(Trace, ProcessAndThreadsAreNamed) {
  const auto names = events_of(sample_run(), "M");
  ASSERT_EQ(names.size(), 3U);
  EXPECT_EQ(names[0]["name"], "process_name");
  EXPECT_EQ(names[0]["args"]["name"], "encore: gpt");
  EXPECT_EQ(names[2]["name"], "thread_name");
  EXPECT_EQ(names[2]["tid"], 7);
}

TEST(Trace, MeasuredMemoryIsACounter) {
  const auto counters = events_of(sample_run(), "C");
  ASSERT_EQ(counters.size(), 3U);
  EXPECT_EQ(counters[1]["ts"], 250000.0);
  EXPECT_EQ(counters[1]["args"]["bytes"], 404 << 20);
}

TEST(Trace, AnyRunGivesATrace) {
  EXPECT_EQ(events_of(report::Run(), "X").size(), 0U);
  report::Run run = sample_run();
  run.name = run.events[0].name = "\xff";
  run.events[0].category = kHostile;
  run.events[0].duration_us = kUnknown;
  EXPECT_EQ(events_of(run, "X")[0]["cat"], kHostile);
  EXPECT_EQ(events_of(run, "X")[0]["dur"], 0.0);
}

}  // namespace
}  // namespace encore::report
