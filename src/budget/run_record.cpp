// From journals and plans to the report's plain data.
#include "budget/run_record.h"

#include <algorithm>

#include <encore/plan/curve.h>
#include <encore/plan/json.h>

#include "budget/names.h"
#include "budget/peak_record.h"
#include "budget/value_reports.h"

namespace encore::budget {
namespace {

constexpr size_t kMostSteps = 1'000;
// Points of the memory/time curve around the chosen one, and the search's effort for each.
constexpr int32_t kCurvePoints = 9;
constexpr int64_t kCurveEffort = 15;

/// A page shows what a step that learns does: it runs plainly.
const char* mode_of(const StepReport& step) {
  return step.mode == StepMode::kLearning ? "plain" : name_of(step.mode);
}

/// By step of the graph: when it began in the step that is shown, in seconds. What is planned was measured in other
/// steps, perhaps while the machine was busy: on that clock the lines would not lie above each other. Empty if the step
/// went another way.
std::vector<double> starts_of(const StepModel& model, const Journal& journal) {
  if (model.step_of_event.size() != journal.events.size()) {
    return {};
  }
  std::vector<double> starts(model.graph.steps.size(), 0);
  for (size_t e = journal.events.size(); e-- > 0;) {
    starts[static_cast<size_t>(model.step_of_event[e])] =
        static_cast<double>(journal.events[e].start_ns - journal.start_ns) * 1e-9;
  }
  return starts;
}

/// Memory over a schedule; without `starts` by the graph's own times.
report::Timeline timeline_of(const char* name, const plan::Graph& graph, const plan::Schedule& schedule,
                             const std::vector<double>& starts) {
  report::Timeline timeline;
  timeline.name = name;
  std::vector<char> seen(graph.steps.size(), 0);
  std::vector<int32_t> form(graph.steps.size(), -1);
  size_t next = 0;
  int64_t resident = 0;
  double seconds = 0;
  for (const plan::Op& op : schedule) {
    const auto index = static_cast<size_t>(op.step);
    const plan::Step& step = graph.steps[index];
    const int64_t background = next < graph.steps.size() ? graph.steps[next].background_bytes : 0;
    const auto during = [&](int64_t bytes, double duration) {
      timeline.points.push_back({seconds, bytes + background});
      const double end = seconds + duration;
      seconds = starts.empty() || next >= starts.size() ? end : std::max(seconds, std::min(end, starts[next]));
    };
    switch (op.kind) {
      case plan::OpKind::kDrop:
        resident -= form[index] < 0 ? step.bytes : step.variants[static_cast<size_t>(form[index])].bytes;
        form[index] = -1;
        break;
      case plan::OpKind::kEncode:
      case plan::OpKind::kDecode: {
        const bool packs = op.kind == plan::OpKind::kEncode;
        const auto& variant = step.variants[static_cast<size_t>(packs ? op.variant : form[index])];
        during(resident + (packs ? variant.bytes : step.bytes), packs ? variant.encode_time : variant.decode_time);
        resident += packs ? variant.bytes - step.bytes : step.bytes - variant.bytes;
        form[index] = packs ? op.variant : -1;
        break;
      }
      case plan::OpKind::kCompute:
        resident += step.bytes;
        if (seen[index] == 0) {
          seen[index] = 1;
          next = index + 1;
          seconds = starts.empty() ? seconds : std::max(seconds, starts[index]);
        }
        during(resident + step.temp_bytes, step.time);
        break;
    }
  }
  return timeline;
}

double when_highest(const report::Timeline& timeline) {
  const auto highest = std::max_element(timeline.points.begin(), timeline.points.end(),
                                        [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return highest == timeline.points.end() ? 0 : highest->seconds;
}

plan::Schedule plain_schedule(const plan::Graph& graph) {
  plan::PlanOptions options;
  options.minimum = false;
  return plan::plan(graph, plan::baseline(graph).peak_bytes, options).schedule;
}

/// `pace`: of the step that is shown, over what was measured when the plan was made.
void add_curve(report::Run& run, const plan::Graph& graph, const plan::Plan& chosen, double pace) {
  plan::CurveOptions options;
  options.points = kCurvePoints;
  options.plan.effort = kCurveEffort;
  options.plan.exact_states = 0;
  // The chosen plan had more effort: what it beats is not shown.
  std::vector<report::CurvePoint> faster;
  for (const plan::CurvePoint& point : plan::curve(graph, options)) {
    const bool is_less = point.budget_bytes < chosen.peak_bytes && point.time > chosen.time;
    const bool is_more = point.budget_bytes > chosen.peak_bytes && point.time < chosen.time;
    if (is_less) {
      run.curve.points.push_back({point.budget_bytes, point.time * pace});
    } else if (is_more) {
      faster.push_back({point.budget_bytes, point.time * pace});
    }
  }
  run.curve.chosen = static_cast<int64_t>(run.curve.points.size());
  run.curve.points.push_back({chosen.peak_bytes, chosen.time * pace});
  run.curve.points.insert(run.curve.points.end(), faster.begin(), faster.end());
}

void add_measured(report::Run& run, const Journal& journal) {
  report::Timeline measured;
  measured.name = "measured";
  for (const Event& event : journal.events) {
    const auto since_start = static_cast<double>(event.start_ns - journal.start_ns);
    measured.points.push_back({since_start * 1e-9, event.live_peak});
    if (event.backward && run.backward_begins_seconds < 0) {
      run.backward_begins_seconds = since_start * 1e-9;
    }
    run.events.push_back({event.info != nullptr ? event.info->name : event.node,
                          event.backward ? "backward" : "forward", since_start * 1e-3,
                          static_cast<double>(event.duration_ns + event.away_ns) * 1e-3, 0});
  }
  for (const Interlude& interlude : journal.interludes) {
    run.events.push_back({interlude.what, interlude.what,
                          static_cast<double>(interlude.start_ns - journal.start_ns) * 1e-3,
                          static_cast<double>(interlude.duration_ns) * 1e-3, 0});
  }
  run.timelines.push_back(std::move(measured));
}

}  // namespace

void RunRecord::add(const StepReport& step, double loss) {
  report::RunStep entry;
  entry.index = step.step;
  char signature[20];
  std::snprintf(signature, sizeof(signature), "%016llx", static_cast<unsigned long long>(step.signature));
  entry.signature = signature;
  entry.mode = step.refused ? "refused" : mode_of(step);
  entry.message = step.note;
  entry.predicted_peak_bytes = step.predicted_peak_bytes;
  entry.measured_peak_bytes = step.peak_bytes;
  entry.plain_peak_bytes = step.plain_peak_bytes;
  entry.step_seconds = step.step_seconds;
  entry.replay_seconds = step.replay_seconds;
  entry.planning_seconds = step.planning_seconds;
  entry.ops_replayed = step.ops_replayed;
  entry.values_kept = step.values_kept;
  entry.values_dropped = step.values_dropped;
  entry.loss = loss;
  steps_.push_back(std::move(entry));
  if (steps_.size() > kMostSteps) {
    steps_.pop_front();
  }
  limit_bytes_ = step.limit_bytes;
  resting_bytes_ = step.resting_bytes;
  if (step.limit_bytes >= 0) {
    process_bytes_ = std::max(process_bytes_, step.process_bytes);
    book_bytes_ = std::max(book_bytes_, step.book_bytes);
  }
}

std::string RunRecord::graph_json() const {
  return shown_.plan ? plan::write_graph(shown_.plan->model->graph_for(shown_.resting_bytes)) : std::string();
}

double RunRecord::shown_seconds() const {
  const auto step = std::find_if(steps_.begin(), steps_.end(),
                                 [&](const report::RunStep& entry) { return entry.index == shown_.index; });
  return step == steps_.end() ? 0 : step->step_seconds;
}

report::Run RunRecord::run(std::string_view name, const std::vector<RunSystem>& systems) const {
  report::Run run;
  run.name = name;
  run.limit_bytes = limit_bytes_;
  run.resting_bytes = resting_bytes_;
  run.process_bytes = process_bytes_;
  run.book_bytes = book_bytes_;
  run.steps.assign(steps_.begin(), steps_.end());
  run.shown_step = shown_.index;
  for (const RunSystem& system : systems) {
    run.systems.push_back({system.name, system.peak_bytes, system.step_seconds, system.bit_identical});
  }
  if (shown_.index < 0) {
    return run;
  }
  if (shown_.plan) {
    const plan::Graph graph = shown_.plan->model->graph_for(shown_.resting_bytes);
    const std::vector<double> starts = starts_of(*shown_.plan->model, shown_.journal);
    run.timelines.push_back(timeline_of("plain", graph, plain_schedule(graph), starts));
    run.timelines.push_back(timeline_of("planned", graph, shown_.plan->plan.schedule, starts));
    const double seconds = shown_seconds();
    const double pace = seconds > 0 && shown_.plan->plan.time > 0 ? seconds / shown_.plan->plan.time : 1;
    add_curve(run, graph, shown_.plan->plan, pace);
    run.peak = live_at_peak(*shown_.plan->model, graph, shown_.plan->plan.schedule);
    run.peak.seconds = when_highest(run.timelines.back());
    for (const ValueReport& value : values_of(*shown_.plan)) {
      run.values.push_back({value.name, value.module, value.bytes, value.action, value.why, value.seconds});
    }
  }
  add_measured(run, shown_.journal);
  if (shown_.plan) {  // on a line of its own, since it was made before the step
    run.events.push_back({"plan, made before the step", "plan", 0, shown_.plan->planning_seconds * 1e6, 1});
  }
  return run;
}

}  // namespace encore::budget
