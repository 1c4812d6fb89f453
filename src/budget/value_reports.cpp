// From a plan's schedule to lines of a report.
#include "budget/value_reports.h"

#include <algorithm>
#include <map>

#include <encore/bytes.h>

#include "base/plain_numbers.h"
#include "budget/peak_record.h"

namespace encore::budget {
namespace {

std::string milliseconds(double seconds) {
  return number_text("%.3g ms", seconds * 1e3);
}

}  // namespace

std::vector<ValueReport> values_of(const Itinerary& plan) {
  const std::vector<plan::Step>& steps = plan.model->graph.steps;
  std::vector<int64_t> times(steps.size(), -1);
  std::vector<const plan::Variant*> forms(steps.size(), nullptr);
  for (const plan::Op& op : plan.plan.schedule) {
    const auto step = static_cast<size_t>(op.step);
    times[step] += op.kind == plan::OpKind::kCompute ? 1 : 0;
    if (op.kind == plan::OpKind::kEncode) {
      forms[step] = &steps[step].variants[static_cast<size_t>(op.variant)];
    }
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
    } else if (forms[i] != nullptr) {
      value.action = "packed";
      value.why = "held as " + format_bytes(forms[i]->bytes) + " in the form '" + forms[i]->kind + "'";
    } else {
      value.action = "kept";
      value.why = "fits, or is dearer than what was dropped in its place";
    }
    values.push_back(std::move(value));
  }
  return values;
}

std::vector<ValueReport> held_at_peak(const Itinerary& plan, int64_t resting_bytes) {
  std::map<std::pair<std::string, std::string>, int64_t> bytes;  // by op and module
  for (const report::LivePart& part :
       live_at_peak(*plan.model, plan.model->graph_for(resting_bytes), plan.plan.schedule).parts) {
    if (part.kind == "held") {
      bytes[{part.name, part.path}] += part.bytes;
    }
  }
  std::vector<ValueReport> values;
  for (const auto& [where, nbytes] : bytes) {
    ValueReport value;
    value.name = where.first;
    value.module = where.second;
    value.bytes = nbytes;
    value.action = "held";
    value.why = "a variable, a list or a long expression of your own code has it, and will not use it any more";
    values.push_back(std::move(value));
  }
  std::stable_sort(values.begin(), values.end(),
                   [](const ValueReport& a, const ValueReport& b) { return a.bytes > b.bytes; });
  return values;
}

}  // namespace encore::budget
