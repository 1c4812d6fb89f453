// A run as a Chrome trace: https://ui.perfetto.dev and chrome://tracing open it.
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "report/run.h"

namespace encore::report {
namespace {

using json = nlohmann::ordered_json;

constexpr int kProcess = 1;
constexpr double kMicrosPerSecond = 1e6;

// A clock that went wrong must not make the whole file unreadable.
double micros(double value) {
  return std::isfinite(value) && value > 0 ? value : 0;
}

json name_of(const char* what, int64_t thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", kProcess}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

std::string to_chrome_trace(const Run& run) {
  json events = json::array();
  events.push_back(name_of("process_name", 0, run.name.empty() ? "encore" : "encore: " + run.name));
  std::set<int64_t> threads;
  for (const TraceEvent& event : run.events) {
    if (threads.insert(event.thread).second) {
      events.push_back(name_of("thread_name", event.thread, "thread " + std::to_string(event.thread)));
    }
  }
  for (const TraceEvent& event : run.events) {
    events.push_back({{"name", event.name},
                      {"cat", event.category},
                      {"ph", "X"},
                      {"ts", micros(event.start_us)},
                      {"dur", micros(event.duration_us)},
                      {"pid", kProcess},
                      {"tid", event.thread}});
  }
  for (const Timeline& timeline : run.timelines) {
    // The other timelines are of steps that did not happen at these times.
    if (timeline.name != "measured") {
      continue;
    }
    for (const TimelinePoint& point : timeline.points) {
      events.push_back({{"name", "tensor bytes"},
                        {"ph", "C"},
                        {"ts", micros(point.seconds * kMicrosPerSecond)},
                        {"pid", kProcess},
                        {"args", {{"bytes", point.bytes}}}});
    }
  }
  const json root{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return root.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace encore::report
