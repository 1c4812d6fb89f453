// encore-run-1: what is written is read again, and every refusal names the file and the field.
#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <encore/error.h>

#include "report/run.h"
#include "report/sample.h"

namespace encore::report {
namespace {

using nlohmann::json;

std::string refusal(const std::string& text) {
  try {
    run_from_json(text, "r.json");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

// The sample with the field at `pointer` set to `value`, or taken out if that is "missing".
std::string with(const std::string& pointer, const json& value) {
  json root = json::parse(to_json(sample_run()));
  const json::json_pointer place(pointer);
  EXPECT_TRUE(root.contains(place)) << pointer;
  if (value == "missing") {
    root[place.parent_pointer()].erase(place.back());
  } else {
    root[place] = value;
  }
  return root.dump();
}

TEST(RunJson, EveryFieldComesBack) {
  const report::Run run = run_from_json(to_json(sample_run()), "r.json");
  EXPECT_EQ(run.name, "gpt");
  EXPECT_EQ(run.limit_bytes, 512 << 20);
  EXPECT_EQ(run.resting_bytes, 150 << 20);
  EXPECT_EQ(run.process_bytes, 700 << 20);
  EXPECT_EQ(run.shown_step, 1);
  EXPECT_EQ(run.backward_begins_seconds, 0.25);
  ASSERT_EQ(run.steps.size(), 3U);
  const RunStep& step = run.steps[1];
  EXPECT_EQ(step.index, 1);
  EXPECT_EQ(step.signature, "float[8]");
  EXPECT_EQ(step.mode, "planned");
  EXPECT_EQ(step.predicted_peak_bytes, 400 << 20);
  EXPECT_EQ(step.measured_peak_bytes, 404 << 20);
  EXPECT_EQ(step.plain_peak_bytes, 800 << 20);
  EXPECT_EQ(step.step_seconds, 0.5);
  EXPECT_EQ(step.replay_seconds, 0.0625);
  EXPECT_EQ(run.steps[0].planning_seconds, 0.125);
  EXPECT_EQ(step.ops_replayed, 12);
  EXPECT_EQ(step.values_kept, 3);
  EXPECT_EQ(step.values_dropped, 4);
  EXPECT_EQ(step.loss, 1.5);
  EXPECT_EQ(run.steps[2].message, "needs at least 612 MiB");
  ASSERT_EQ(run.timelines.size(), 3U);
  EXPECT_EQ(run.timelines[2].name, "measured");
  EXPECT_EQ(run.timelines[2].points[1].seconds, 0.25);
  EXPECT_EQ(run.timelines[2].points[1].bytes, 404 << 20);
  ASSERT_EQ(run.curve.points.size(), 3U);
  EXPECT_EQ(run.curve.points[1].bytes, 400 << 20);
  EXPECT_EQ(run.curve.points[1].seconds, 0.5);
  EXPECT_EQ(run.curve.chosen, 1);
  ASSERT_EQ(run.values.size(), 2U);
  EXPECT_EQ(run.values[0].name, "relu_1");
  EXPECT_EQ(run.values[0].path, "blocks.0");
  EXPECT_EQ(run.values[0].bytes, 4096);
  EXPECT_EQ(run.values[0].action, "kept");
  EXPECT_EQ(run.values[0].why, "small");
  EXPECT_EQ(run.values[0].price, 0.001);
  ASSERT_EQ(run.systems.size(), 2U);
  EXPECT_EQ(run.systems[0].name, "plain");
  EXPECT_EQ(run.systems[0].peak_bytes, 800 << 20);
  EXPECT_EQ(run.systems[0].step_seconds, 0.4);
  EXPECT_TRUE(run.systems[0].bit_identical);
  EXPECT_FALSE(run.systems[1].bit_identical);
  ASSERT_EQ(run.events.size(), 2U);
  EXPECT_EQ(run.events[1].name, "aten::mm");
  EXPECT_EQ(run.events[1].category, "replay");
  EXPECT_EQ(run.events[0].start_us, 10);
  EXPECT_EQ(run.events[0].duration_us, 20.5);
  EXPECT_EQ(run.events[1].thread, 7);
  EXPECT_EQ(to_json(run), to_json(sample_run()));
}

TEST(RunJson, UnknownNumbersAreNull) {
  const json root = json::parse(to_json(sample_run()));
  EXPECT_TRUE(root["steps"][0]["loss"].is_null());
  EXPECT_TRUE(root["values"][1]["price"].is_null());
  const report::Run run = run_from_json(root.dump(), "r.json");
  EXPECT_TRUE(std::isnan(run.steps[0].loss));
  EXPECT_TRUE(std::isnan(run.values[1].price));
  report::Run wild;
  wild.steps.resize(1);
  wild.steps[0].loss = INFINITY;
  wild.steps[0].step_seconds = kUnknown;
  EXPECT_EQ(run_from_json(to_json(wild), "r.json").steps[0].step_seconds, 0);
}

TEST(RunJson, NamesMayHoldAnything) {
  for (const std::string& name : {std::string(kHostile), std::string("a\0b\n\"\\", 6), std::string("\u4f60\u2028")}) {
    report::Run run = sample_run();
    run.name = run.values[0].name = run.steps[0].signature = run.events[0].name = name;
    const report::Run again = run_from_json(to_json(run), "r.json");
    EXPECT_EQ(again.name, name);
    EXPECT_EQ(again.values[0].name, name);
    EXPECT_EQ(again.steps[0].signature, name);
    EXPECT_EQ(again.events[0].name, name);
  }
  report::Run run;
  run.name = "not UTF-8: \xff";
  EXPECT_EQ(run_from_json(to_json(run), "r.json").name, "not UTF-8: \uFFFD");
}

TEST(RunJson, LeftOutFieldsAreUnknown) {
  const report::Run run =
      run_from_json(R"({"format": "encore-run-1", "name": "", "steps": [{"index": 3, "mode": "plain"}]})", "r.json");
  EXPECT_EQ(run.limit_bytes, -1);
  EXPECT_EQ(run.resting_bytes, -1);
  EXPECT_EQ(run.backward_begins_seconds, -1);
  EXPECT_EQ(run.curve.chosen, -1);
  EXPECT_EQ(run.steps[0].measured_peak_bytes, -1);
  EXPECT_TRUE(std::isnan(run.steps[0].loss));
  EXPECT_TRUE(run.values.empty());
}

struct BadField {
  const char* pointer;
  json value;
  const char* words;
};

TEST(RunJson, EveryBadFieldIsNamed) {
  const json text = "much";
  const json list = json::array({1});
  const json huge = 18446744073709551615ULL;
  const BadField cases[] = {
      {"/format", "encore-run-2", "r.json: format is 'encore-run-2'"},
      {"/format", "missing", "r.json: format is missing"},
      {"/name", 3, "r.json: name is number"},
      {"/name", "missing", "r.json: name is missing"},
      {"/limit_bytes", -2, "r.json: limit_bytes is -2"},
      {"/limit_bytes", huge, "r.json: limit_bytes is 18446744073709551615"},
      {"/resting_bytes", 1.5, "r.json: resting_bytes is 1.5"},
      {"/shown_step", text, "r.json: shown_step is string"},
      {"/backward_begins_seconds", -3, "r.json: backward_begins_seconds is -3"},
      {"/steps", "missing", "r.json: steps is missing"},
      {"/steps", text, "r.json: steps is string"},
      {"/steps/1", list, "r.json: steps[1] is array"},
      {"/steps/1/index", "missing", "r.json: steps[1]: index is missing"},
      {"/steps/1/index", -1, "r.json: steps[1]: index is -1"},
      {"/steps/1/signature", list, "r.json: steps[1]: signature is array"},
      {"/steps/1/mode", "missing", "r.json: steps[1]: mode is missing"},
      {"/steps/1/mode", text, "r.json: steps[1]: mode is 'much', not one of: online, planned, plain, refused"},
      {"/steps/1/message", 1, "r.json: steps[1]: message is number"},
      {"/steps/1/predicted_peak_bytes", text, "r.json: steps[1]: predicted_peak_bytes is string"},
      {"/steps/1/measured_peak_bytes", -2, "r.json: steps[1]: measured_peak_bytes is -2"},
      {"/steps/1/plain_peak_bytes", nullptr, "r.json: steps[1]: plain_peak_bytes is null"},
      {"/steps/1/step_seconds", -0.5, "r.json: steps[1]: step_seconds is -0.5"},
      {"/steps/1/replay_seconds", text, "r.json: steps[1]: replay_seconds is string"},
      {"/steps/1/planning_seconds", nullptr, "r.json: steps[1]: planning_seconds is null"},
      {"/steps/1/ops_replayed", -1, "r.json: steps[1]: ops_replayed is -1"},
      {"/steps/1/values_kept", 0.5, "r.json: steps[1]: values_kept is 0.5"},
      {"/steps/1/values_dropped", text, "r.json: steps[1]: values_dropped is string"},
      {"/steps/1/loss", text, "r.json: steps[1]: loss is string"},
      {"/timelines", 1, "r.json: timelines is number"},
      {"/timelines/0/name", "guessed", "r.json: timelines[0]: name is 'guessed'"},
      {"/timelines/1/name", "plain", "r.json: timelines[1]: name is 'plain', as that of timelines[0]"},
      {"/timelines/0/points", "missing", "r.json: timelines[0]: points is missing"},
      {"/timelines/0/points/2/seconds", "missing", "r.json: timelines[0]: points[2]: seconds is missing"},
      {"/timelines/0/points/2/seconds", 0.1, "r.json: timelines[0]: points[2]: seconds is less"},
      {"/timelines/0/points/2/bytes", -1, "r.json: timelines[0]: points[2]: bytes is -1"},
      {"/curve", list, "r.json: curve is array"},
      {"/curve/points", text, "r.json: curve: points is string"},
      {"/curve/chosen", 3, "r.json: curve: chosen is 3, but there are 3 points"},
      {"/curve/points/1/bytes", "missing", "r.json: curve: points[1]: bytes is missing"},
      {"/curve/points/1/seconds", -1, "r.json: curve: points[1]: seconds is -1"},
      {"/values/1/name", "missing", "r.json: values[1]: name is missing"},
      {"/values/1/path", 1, "r.json: values[1]: path is number"},
      {"/values/1/bytes", "missing", "r.json: values[1]: bytes is missing"},
      {"/values/1/action", "missing", "r.json: values[1]: action is missing"},
      {"/values/1/why", true, "r.json: values[1]: why is boolean"},
      {"/values/1/price", -1, "r.json: values[1]: price is -1"},
      {"/systems/0/name", nullptr, "r.json: systems[0]: name is null"},
      {"/systems/0/peak_bytes", text, "r.json: systems[0]: peak_bytes is string"},
      {"/systems/0/step_seconds", text, "r.json: systems[0]: step_seconds is string"},
      {"/systems/0/bit_identical", 1, "r.json: systems[0]: bit_identical is number"},
      {"/events/0/name", "missing", "r.json: events[0]: name is missing"},
      {"/events/0/category", 1, "r.json: events[0]: category is number"},
      {"/events/0/start_us", -1, "r.json: events[0]: start_us is -1"},
      {"/events/0/duration_us", "missing", "r.json: events[0]: duration_us is missing"},
      {"/events/0/thread", 0.5, "r.json: events[0]: thread is 0.5"},
  };
  for (const BadField& bad : cases) {
    const std::string message = refusal(with(bad.pointer, bad.value));
    EXPECT_EQ(message.rfind(bad.words, 0), 0U) << bad.pointer << " gave: " << message;
  }
}

TEST(RunJson, WhatIsNoRunIsRefused) {
  EXPECT_EQ(refusal("").rfind("r.json: not JSON", 0), 0U);
  EXPECT_EQ(refusal("{\"format\": \"encore-run-1\"").rfind("r.json: not JSON", 0), 0U);
  EXPECT_EQ(refusal("[]"), "r.json: is array, not an object");
  EXPECT_EQ(
      refusal(R"({"format": "encore-run-1", "name": "x", "steps": [{"index": 1e999}]})").rfind("r.json: not JSON", 0),
      0U);
}

}  // namespace
}  // namespace encore::report
