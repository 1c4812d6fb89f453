// Which charts a run gives.
#include <algorithm>
#include <cmath>

#include "report/page.h"
#include "report/text.h"

namespace encore::report {
namespace {

struct Miss {
  const RunStep* step = nullptr;
  int64_t bytes = 0;
};

bool was_predicted(const RunStep& step) {
  return step.predicted_peak_bytes >= 0 && step.measured_peak_bytes >= 0;
}

Rule budget_rule(const Run& run, bool vertical) {
  return {"Budget", "budget", bytes_text(run.limit_bytes), vertical, static_cast<double>(run.limit_bytes)};
}

std::string name_of(const Timeline& timeline) {
  return timeline.name == "measured"  ? "Measured"
         : timeline.name == "planned" ? "Planned"
         : timeline.name == "plain"   ? "Plain"
                                      : timeline.name;
}

std::string style_of(const Timeline& timeline) {
  return timeline.name == "measured" || timeline.name == "planned" ? timeline.name : "plain";
}

}  // namespace

const RunStep* shown_step(const Run& run) {
  const RunStep* last = nullptr;
  for (const RunStep& step : run.steps) {
    if (run.shown_step >= 0 && step.index == run.shown_step) {
      return &step;
    }
    if (last == nullptr || step.mode != "refused" || last->mode == "refused") {
      last = &step;
    }
  }
  return last;
}

std::optional<Chart> memory_chart(const Run& run) {
  Chart chart;
  chart.id = "memory";
  chart.title = "Memory over the step";
  chart.x_name = "time in the step";
  chart.y_name = "tensor bytes";
  double end = 0;
  // Measured and planned are meant to coincide: the dashes go on top, so that both are seen.
  for (const char* name : {"plain", "measured", "planned"}) {
    for (const Timeline& timeline : run.timelines) {
      if (timeline.name != name || timeline.points.empty()) {
        continue;
      }
      Series series{name_of(timeline), style_of(timeline), "", true, false, timeline.name == "measured", {}};
      TimelinePoint peak = timeline.points.front();
      for (const TimelinePoint& point : timeline.points) {
        series.points.push_back({point.seconds, static_cast<double>(point.bytes)});
        peak = point.bytes > peak.bytes ? point : peak;
      }
      end = std::max(end, series.points.back().x);
      series.note = bytes_text(peak.bytes);
      chart.description +=
          series.name + ": peak " + bytes_text(peak.bytes) + " at " + seconds_text(peak.seconds) + ". ";
      if (timeline.name == "measured") {
        chart.marks.push_back({{peak.seconds, static_cast<double>(peak.bytes)}, "peak " + bytes_text(peak.bytes)});
      }
      chart.series.push_back(std::move(series));
    }
  }
  if (chart.series.empty()) {
    return std::nullopt;
  }
  if (run.limit_bytes >= 0) {
    chart.rules.push_back(budget_rule(run, false));
    chart.description += "Budget: " + bytes_text(run.limit_bytes) + ". ";
  }
  if (run.resting_bytes >= 0) {
    chart.rules.push_back(
        {"Resting", "resting", bytes_text(run.resting_bytes), false, static_cast<double>(run.resting_bytes)});
    chart.description += "Resting: " + bytes_text(run.resting_bytes) + ". ";
  }
  if (run.backward_begins_seconds >= 0 && run.backward_begins_seconds < end) {
    chart.bands.push_back({"forward", "forward", 0, run.backward_begins_seconds});
    chart.bands.push_back({"backward", "backward", run.backward_begins_seconds, end});
    chart.description += "Backward begins at " + seconds_text(run.backward_begins_seconds) + ". ";
  }
  return chart;
}

std::optional<Chart> curve_chart(const Run& run) {
  if (run.curve.points.empty()) {
    return std::nullopt;
  }
  Chart chart;
  chart.id = "curve";
  chart.title = "Time against memory";
  chart.x_name = "peak memory";
  chart.y_name = "step time";
  chart.x_unit = Unit::kBytes;
  chart.y_unit = Unit::kSeconds;
  chart.y_from_zero = false;
  Series series{"Least step time known", "measured", "", true, true, false, {}};
  for (const CurvePoint& point : run.curve.points) {
    series.points.push_back({static_cast<double>(point.bytes), point.seconds});
  }
  std::stable_sort(series.points.begin(), series.points.end(),
                   [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
  chart.description = counted(static_cast<int64_t>(series.points.size()), "plan") + ", from " +
                      bytes_text(static_cast<int64_t>(series.points.front().x)) + " in " +
                      seconds_text(series.points.front().y) + " to " +
                      bytes_text(static_cast<int64_t>(series.points.back().x)) + " in " +
                      seconds_text(series.points.back().y) + ". ";
  chart.series.push_back(std::move(series));
  if (run.curve.chosen >= 0 && run.curve.chosen < static_cast<int64_t>(run.curve.points.size())) {
    const CurvePoint& chosen = run.curve.points[static_cast<size_t>(run.curve.chosen)];
    const std::string label = bytes_text(chosen.bytes) + ", " + seconds_text(chosen.seconds);
    chart.marks.push_back({{static_cast<double>(chosen.bytes), chosen.seconds}, "chosen: " + label});
    chart.description += "Chosen: " + label + ". ";
  }
  if (run.limit_bytes >= 0) {
    chart.rules.push_back(budget_rule(run, true));
    chart.description += "Budget: " + bytes_text(run.limit_bytes) + ". ";
  }
  return chart;
}

std::optional<Chart> prediction_chart(const Run& run) {
  Chart chart;
  chart.id = "prediction";
  chart.title = "Predicted and measured peak of each step";
  chart.x_name = "step";
  chart.y_name = "peak bytes";
  chart.x_unit = Unit::kCount;
  chart.y_from_zero = false;
  Series measured{"Measured", "measured", "", false, true, false, {}};
  Series predicted{"Predicted", "planned", "", false, true, false, {}};
  std::vector<const RunStep*> steps;
  for (const RunStep& step : run.steps) {
    steps.push_back(&step);
  }
  std::stable_sort(steps.begin(), steps.end(), [](const RunStep* a, const RunStep* b) { return a->index < b->index; });
  for (const RunStep* step : steps) {
    const auto x = static_cast<double>(step->index);
    if (step->measured_peak_bytes >= 0) {
      measured.points.push_back({x, static_cast<double>(step->measured_peak_bytes)});
    }
    if (step->predicted_peak_bytes >= 0) {
      predicted.points.push_back({x, static_cast<double>(step->predicted_peak_bytes)});
    }
  }
  if (measured.points.empty() || predicted.points.empty()) {
    return std::nullopt;
  }
  chart.series = {std::move(measured), std::move(predicted)};
  chart.description = prediction_summary(run);
  if (run.limit_bytes >= 0) {
    chart.rules.push_back(budget_rule(run, false));
  }
  return chart;
}

std::string prediction_summary(const Run& run) {
  int64_t predicted = 0;
  Miss largest;
  for (const RunStep& step : run.steps) {
    if (!was_predicted(step)) {
      continue;
    }
    ++predicted;
    const int64_t miss = step.measured_peak_bytes - step.predicted_peak_bytes;
    if (largest.step == nullptr || std::abs(miss) > std::abs(largest.bytes)) {
      largest = {&step, miss};
    }
  }
  if (predicted == 0) {
    return "No step was both predicted and measured.";
  }
  const std::string steps =
      counted(predicted, "step") + (predicted == 1 ? " was" : " were") + " predicted and measured. ";
  if (largest.bytes == 0) {
    return steps + "Every prediction was exact to the byte.";
  }
  return steps + "The largest difference is in step " + count_text(largest.step->index) + ": predicted " +
         bytes_text(largest.step->predicted_peak_bytes) + ", measured " +
         bytes_text(largest.step->measured_peak_bytes) + ", " + bytes_text(std::abs(largest.bytes)) +
         (largest.bytes > 0 ? " more." : " less.");
}

}  // namespace encore::report
