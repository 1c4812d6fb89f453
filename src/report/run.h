// What is told about one training run, and the three forms it is told in: JSON, a web page, a Chrome trace.
//
// Plain data: whoever runs the steps fills a Run; nothing here knows of tensors. All functions may be called from any
// thread. Bytes are exact counts, -1 where unknown; seconds are wall-clock.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace encore::report {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// One training step.
struct RunStep {
  int64_t index = 0;
  std::string signature;  ///< What plans are cached by: shapes and types of the step's inputs.
  /// "online": eviction while recording. "planned": by a plan. "plain": nothing was dropped. "refused": it did not run.
  std::string mode = "plain";
  std::string message;  ///< Why it was refused or left its plan; empty otherwise.
  int64_t predicted_peak_bytes = -1;
  int64_t measured_peak_bytes = -1;
  int64_t plain_peak_bytes = -1;  ///< The peak without Encore.
  double step_seconds = 0;
  double replay_seconds = 0;  ///< Part of step_seconds.
  double planning_seconds = 0;
  int64_t ops_replayed = 0;
  int64_t values_kept = 0;
  int64_t values_dropped = 0;
  double loss = kUnknown;
};

struct TimelinePoint {
  double seconds = 0;  ///< Since the shown step began.
  int64_t bytes = 0;   ///< Held until the next point.
};

/// Memory over the shown step. Points are in order of time.
struct Timeline {
  std::string name;  ///< "plain", "planned" or "measured"; each at most once.
  std::vector<TimelinePoint> points;
};

struct CurvePoint {
  int64_t bytes = 0;
  double seconds = 0;
};

/// The least step time within each budget.
struct Curve {
  std::vector<CurvePoint> points;
  int64_t chosen = -1;  ///< The point that the run uses; -1: none.
};

/// One value of the shown step, and what became of it.
struct RunValue {
  std::string name;
  std::string path;  ///< The module that made it: "layers.3.attention".
  int64_t bytes = 0;
  std::string action;       ///< "kept", "recomputed", "packed", ...
  std::string why;          ///< The reason for the action, for people.
  double price = kUnknown;  ///< Seconds to compute it again.
};

/// Something that was in memory at the peak.
struct LivePart {
  std::string name;  ///< The op that made it.
  std::string path;  ///< The module it belongs to: "layers.3.attention".
  int64_t bytes = 0;
  std::string kind;  ///< "kept", "packed as bits" (a form's name), "scratch", "held": by the user's own code alone,
                     ///< "outside": not the plan's to drop; or another word.
};

/// What was in memory when the shown step's plan needs most.
struct LivePeak {
  std::string during;  ///< The op that runs then.
  double seconds = 0;  ///< Since the shown step began, by the plan.
  std::vector<LivePart> parts;
};

/// Another way of running the same step, for comparison.
struct System {
  std::string name;
  int64_t peak_bytes = -1;
  double step_seconds = 0;
  bool bit_identical = false;  ///< Its gradients are those of the plain run, bit for bit.
};

/// Something that took time. `start_us` and the timelines' seconds count from the same moment.
struct TraceEvent {
  std::string name;
  std::string category;  ///< "record", "replay", "evict", "plan", "forward", "backward".
  double start_us = 0;
  double duration_us = 0;
  int64_t thread = 0;
};

struct Run {
  std::string name;
  int64_t limit_bytes = -1;    ///< The budget; -1: none.
  int64_t resting_bytes = -1;  ///< What is held between steps: parameters, gradients, optimizer state.
  int64_t process_bytes =
      -1;                   ///< What the operating system says the whole process took, at its most within the budget.
  int64_t book_bytes = -1;  ///< Of them Encore's own books, at their most.
  std::vector<RunStep> steps;
  /// RunStep::index of the step that timelines, curve and values are about; -1: the last one that ran.
  int64_t shown_step = -1;
  double backward_begins_seconds = -1;  ///< Within the measured timeline; -1: unknown.
  std::vector<Timeline> timelines;
  Curve curve;
  std::vector<RunValue> values;
  LivePeak peak;  ///< No parts: unknown.
  std::vector<System> systems;
  std::vector<TraceEvent> events;
};

/// Format "encore-run-1"; see docs/report.md. Text that isn't UTF-8 is replaced, not refused.
std::string to_json(const Run& run);

/// Reads what to_json wrote. Throws InvalidArgument that names `file` and the field.
Run run_from_json(std::string_view text, const std::string& file);

/// One self-contained page: nothing is loaded from anywhere, and names are text whatever they hold.
std::string to_html(const Run& run);

/// The events, and the measured memory as a counter, in the trace event format that Perfetto and Chrome open.
std::string to_chrome_trace(const Run& run);

}  // namespace encore::report
