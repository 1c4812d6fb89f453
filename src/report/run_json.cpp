// The reader and writer of "encore-run-1".
#include <algorithm>
#include <array>
#include <cmath>

#include "base/json_reader.h"
#include "report/run.h"

namespace encore::report {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFormat = "encore-run-1";

template <class Item>
std::vector<Item> list_in(const JsonReader& reader, const char* field, Item (*read)(const JsonReader&)) {
  return reader.list(
      field, [&](const nlohmann::json& item, const std::string& place) { return read(JsonReader(item, place)); });
}

template <size_t N>
std::string one_of(const JsonReader& reader, const char* field, const std::array<const char*, N>& words) {
  std::string text = reader.required_text(field);
  if (std::find(words.begin(), words.end(), text) == words.end()) {
    std::string known;
    for (const char* word : words) {
      known += (known.empty() ? "" : ", ") + std::string(word);
    }
    reader.refuse(field, "is '" + text + "', not one of: " + known);
  }
  return text;
}

RunStep read_step(const JsonReader& reader) {
  RunStep step;
  step.index = reader.required_integer("index", 0);
  step.signature = reader.text("signature");
  step.mode = one_of(reader, "mode", std::array{"online", "planned", "plain", "refused"});
  step.message = reader.text("message");
  step.predicted_peak_bytes = reader.integer("predicted_peak_bytes", -1, -1);
  step.measured_peak_bytes = reader.integer("measured_peak_bytes", -1, -1);
  step.plain_peak_bytes = reader.integer("plain_peak_bytes", -1, -1);
  step.step_seconds = reader.seconds("step_seconds", 0);
  step.replay_seconds = reader.seconds("replay_seconds", 0);
  step.planning_seconds = reader.seconds("planning_seconds", 0);
  step.ops_replayed = reader.integer("ops_replayed", 0, 0);
  step.values_kept = reader.integer("values_kept", 0, 0);
  step.values_dropped = reader.integer("values_dropped", 0, 0);
  step.loss = reader.number("loss", kUnknown);
  return step;
}

TimelinePoint read_timeline_point(const JsonReader& reader) {
  return {reader.required_seconds("seconds"), reader.required_integer("bytes", 0)};
}

Timeline read_timeline(const JsonReader& reader) {
  Timeline timeline;
  timeline.name = one_of(reader, "name", std::array{"plain", "planned", "measured"});
  static_cast<void>(reader.required("points"));
  timeline.points = list_in(reader, "points", read_timeline_point);
  for (size_t k = 1; k < timeline.points.size(); ++k) {
    if (timeline.points[k].seconds < timeline.points[k - 1].seconds) {
      reader.refuse("points[" + std::to_string(k) + "]: seconds", "is less than the point's before it");
    }
  }
  return timeline;
}

CurvePoint read_curve_point(const JsonReader& reader) {
  return {reader.required_integer("bytes", 0), reader.required_seconds("seconds")};
}

Curve read_curve(const JsonReader& reader) {
  Curve curve;
  curve.points = list_in(reader, "points", read_curve_point);
  curve.chosen = reader.integer("chosen", -1, -1);
  if (curve.chosen >= static_cast<int64_t>(curve.points.size())) {
    reader.refuse("chosen", "is " + std::to_string(curve.chosen) + ", but there are " +
                                std::to_string(curve.points.size()) + " points");
  }
  return curve;
}

RunValue read_value(const JsonReader& reader) {
  RunValue value;
  value.name = reader.required_text("name");
  value.path = reader.text("path");
  value.bytes = reader.required_integer("bytes", 0);
  value.action = reader.required_text("action");
  value.why = reader.text("why");
  value.price = reader.seconds("price", kUnknown);
  return value;
}

LivePart read_live_part(const JsonReader& reader) {
  return {reader.required_text("name"), reader.text("path"), reader.required_integer("bytes", 0), reader.text("kind")};
}

LivePeak read_peak(const JsonReader& reader) {
  return {reader.text("during"), reader.seconds("seconds", 0), list_in(reader, "parts", read_live_part)};
}

System read_system(const JsonReader& reader) {
  return {reader.required_text("name"), reader.integer("peak_bytes", -1, -1), reader.seconds("step_seconds", 0),
          reader.flag("bit_identical")};
}

TraceEvent read_event(const JsonReader& reader) {
  return {reader.required_text("name"), reader.required_text("category"), reader.required_seconds("start_us"),
          reader.required_seconds("duration_us"), reader.integer("thread", 0, 0)};
}

// JSON has no NaN and no infinity; both are null.
ordered_json number_or_null(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

// Durations that nobody measured are 0 here, so that what is written can be read.
double duration(double seconds) {
  return std::isfinite(seconds) && seconds > 0 ? seconds : 0;
}

template <typename Item, typename Write>
ordered_json list_of(const std::vector<Item>& items, Write write) {
  ordered_json list = ordered_json::array();
  for (const Item& item : items) {
    list.push_back(write(item));
  }
  return list;
}

ordered_json write_step(const RunStep& step) {
  return {{"index", step.index},
          {"signature", step.signature},
          {"mode", step.mode},
          {"message", step.message},
          {"predicted_peak_bytes", step.predicted_peak_bytes},
          {"measured_peak_bytes", step.measured_peak_bytes},
          {"plain_peak_bytes", step.plain_peak_bytes},
          {"step_seconds", duration(step.step_seconds)},
          {"replay_seconds", duration(step.replay_seconds)},
          {"planning_seconds", duration(step.planning_seconds)},
          {"ops_replayed", step.ops_replayed},
          {"values_kept", step.values_kept},
          {"values_dropped", step.values_dropped},
          {"loss", number_or_null(step.loss)}};
}

ordered_json write_timeline(const Timeline& timeline) {
  return {{"name", timeline.name}, {"points", list_of(timeline.points, [](const TimelinePoint& point) {
                                      return ordered_json{{"seconds", duration(point.seconds)}, {"bytes", point.bytes}};
                                    })}};
}

ordered_json write_curve(const Curve& curve) {
  return {{"chosen", curve.chosen},
          {"points", list_of(curve.points, [](const CurvePoint& point) {
             return ordered_json{{"bytes", point.bytes}, {"seconds", duration(point.seconds)}};
           })}};
}

ordered_json write_value(const RunValue& value) {
  return {{"name", value.name},     {"path", value.path}, {"bytes", value.bytes},
          {"action", value.action}, {"why", value.why},   {"price", number_or_null(value.price)}};
}

ordered_json write_peak(const LivePeak& peak) {
  return {{"during", peak.during},
          {"seconds", duration(peak.seconds)},
          {"parts", list_of(peak.parts, [](const LivePart& part) {
             return ordered_json{{"name", part.name}, {"path", part.path}, {"bytes", part.bytes}, {"kind", part.kind}};
           })}};
}

ordered_json write_system(const System& system) {
  return {{"name", system.name},
          {"peak_bytes", system.peak_bytes},
          {"step_seconds", duration(system.step_seconds)},
          {"bit_identical", system.bit_identical}};
}

ordered_json write_event(const TraceEvent& event) {
  return {{"name", event.name},
          {"category", event.category},
          {"start_us", duration(event.start_us)},
          {"duration_us", duration(event.duration_us)},
          {"thread", event.thread}};
}

}  // namespace

std::string to_json(const Run& run) {
  const ordered_json root{
      {"format", kFormat},
      {"name", run.name},
      {"limit_bytes", run.limit_bytes},
      {"resting_bytes", run.resting_bytes},
      {"process_bytes", run.process_bytes},
      {"book_bytes", run.book_bytes},
      {"shown_step", run.shown_step},
      {"backward_begins_seconds", run.backward_begins_seconds >= 0 ? duration(run.backward_begins_seconds) : -1.0},
      {"steps", list_of(run.steps, write_step)},
      {"timelines", list_of(run.timelines, write_timeline)},
      {"curve", write_curve(run.curve)},
      {"values", list_of(run.values, write_value)},
      {"peak", write_peak(run.peak)},
      {"systems", list_of(run.systems, write_system)},
      {"events", list_of(run.events, write_event)}};
  return root.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Run run_from_json(std::string_view text, const std::string& file) {
  const nlohmann::json root = JsonReader::parse(text, file);
  const JsonReader reader(root, file);
  const std::string format = reader.required_text("format");
  if (format != kFormat) {
    reader.refuse("format", "is '" + format + "', not '" + kFormat + "'");
  }
  Run run;
  run.name = reader.required_text("name");
  run.limit_bytes = reader.integer("limit_bytes", -1, -1);
  run.resting_bytes = reader.integer("resting_bytes", -1, -1);
  run.process_bytes = reader.integer("process_bytes", -1, -1);
  run.book_bytes = reader.integer("book_bytes", -1, -1);
  run.shown_step = reader.integer("shown_step", -1, -1);
  run.backward_begins_seconds = reader.seconds("backward_begins_seconds", -1);
  static_cast<void>(reader.required("steps"));
  run.steps = list_in(reader, "steps", read_step);
  run.timelines = list_in(reader, "timelines", read_timeline);
  for (size_t k = 0; k < run.timelines.size(); ++k) {
    for (size_t other = 0; other < k; ++other) {
      if (run.timelines[k].name == run.timelines[other].name) {
        reader.refuse("timelines[" + std::to_string(k) + "]: name",
                      "is '" + run.timelines[k].name + "', as that of timelines[" + std::to_string(other) + "]");
      }
    }
  }
  if (const nlohmann::json* curve = reader.find("curve")) {
    run.curve = read_curve(JsonReader(*curve, reader.place_of("curve")));
  }
  run.values = list_in(reader, "values", read_value);
  if (const nlohmann::json* peak = reader.find("peak")) {
    run.peak = read_peak(JsonReader(*peak, reader.place_of("peak")));
  }
  run.systems = list_in(reader, "systems", read_system);
  run.events = list_in(reader, "events", read_event);
  return run;
}

}  // namespace encore::report
