// From a plan's schedule to lines of a report.
#include "budget/value_reports.h"

#include <cstdio>

#include <encore/bytes.h>

#include "base/plain_numbers.h"

namespace encore::budget {
namespace {

std::string milliseconds(double seconds) {
  char text[32];
  const PlainNumbers plain;
  std::snprintf(text, sizeof(text), "%.3g ms", seconds * 1e3);
  return text;
}

}  // namespace

std::vector<ValueReport> values_of(const Itinerary& plan) {
  const std::vector<plan::Step>& steps = plan.model->graph.steps;
  std::vector<int64_t> times(steps.size(), -1);
  std::vector<char> packed(steps.size(), 0);
  for (const plan::Op& op : plan.plan.schedule) {
    times[static_cast<size_t>(op.step)] += op.kind == plan::OpKind::kCompute ? 1 : 0;
    packed[static_cast<size_t>(op.step)] |= op.kind == plan::OpKind::kEncode ? 1 : 0;
  }
  std::vector<ValueReport> values;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (plan.model->units[i].values.empty()) {
      continue;
    }
    ValueReport value;
    value.name = plan.model->units[i].name + " #" + std::to_string(i);
    value.module = plan.model->units[i].module;
    value.bytes = steps[i].bytes;
    value.seconds = steps[i].time;
    value.times = times[i];
    const bool held = steps[i].held_until + 1 >= static_cast<int32_t>(steps.size());
    if (held) {
      value.action = "held";
      value.why = "in use until the end, or not recomputable";
    } else if (times[i] > 0) {
      value.action = "recomputed";
      value.why = "costs " + milliseconds(steps[i].time) + " for " + format_bytes(value.bytes);
    } else if (packed[i] != 0) {
      value.action = "packed";
      value.why = "held as " + format_bytes(steps[i].variants.front().bytes) + " in the form '" +
                  steps[i].variants.front().kind + "'";
    } else {
      value.action = "kept";
      value.why = "fits, or is dearer than what was dropped in its place";
    }
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace encore::budget
