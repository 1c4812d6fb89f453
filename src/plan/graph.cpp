// Checks of graphs, and the plain run of a graph.
#include <encore/plan/graph.h>

#include <cmath>
#include <limits>

#include <encore/error.h>
#include <encore/plan/simulate.h>

#include "plan/problem.h"

namespace encore::plan {
namespace {

constexpr int64_t kMaxBytes = std::numeric_limits<int64_t>::max();

[[noreturn]] void refuse(const Graph& graph, size_t step, const std::string& field, const std::string& what) {
  throw InvalidArgument("step " + std::to_string(step) + " ('" + graph.steps[step].name + "'): " + field + " " + what);
}

void check_time(const Graph& graph, size_t step, const std::string& field, double time) {
  if (!std::isfinite(time)) {
    refuse(graph, step, field, "is not a finite number");
  }
  if (time < 0) {
    refuse(graph, step, field, "is " + std::to_string(time) + "; it must not be negative");
  }
}

// Adds to the sum of all bytes, so that no later sum of any of them can overflow.
void check_bytes(const Graph& graph, size_t step, const std::string& field, int64_t bytes, int64_t* sum) {
  if (bytes < 0) {
    refuse(graph, step, field, "is " + std::to_string(bytes) + "; it must not be negative");
  }
  if (bytes > kMaxBytes - *sum) {
    refuse(graph, step, field, "makes the sum of all bytes exceed 64 bits");
  }
  *sum += bytes;
}

}  // namespace

void check(const Graph& graph) {
  if (graph.steps.empty()) {
    throw InvalidArgument("steps is empty; a graph has at least one step");
  }
  if (graph.steps.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max() / 4)) {
    throw InvalidArgument("steps has " + std::to_string(graph.steps.size()) + " entries, more than can be counted");
  }
  int64_t bytes = 0;
  double time = 0;
  for (size_t i = 0; i < graph.steps.size(); ++i) {
    const Step& step = graph.steps[i];
    check_time(graph, i, "time", step.time);
    check_bytes(graph, i, "bytes", step.bytes, &bytes);
    check_bytes(graph, i, "temp_bytes", step.temp_bytes, &bytes);
    check_bytes(graph, i, "background_bytes", step.background_bytes, &bytes);
    if (step.held_until >= static_cast<int64_t>(graph.steps.size())) {
      refuse(graph, i, "held_until", "is " + std::to_string(step.held_until) + ", which is not one of the steps");
    }
    time += step.time;
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      if (step.inputs[k] < 0 || step.inputs[k] >= static_cast<int64_t>(i)) {
        refuse(graph, i, "inputs[" + std::to_string(k) + "]",
               "is " + std::to_string(step.inputs[k]) + ", which is not an earlier step");
      }
    }
    for (size_t k = 0; k < step.variants.size(); ++k) {
      const std::string field = "variants[" + std::to_string(k) + "].";
      check_time(graph, i, field + "encode_time", step.variants[k].encode_time);
      check_time(graph, i, field + "decode_time", step.variants[k].decode_time);
      check_bytes(graph, i, field + "bytes", step.variants[k].bytes, &bytes);
      time += step.variants[k].encode_time + step.variants[k].decode_time;
    }
    if (!std::isfinite(time)) {
      refuse(graph, i, "time", "makes the sum of all times infinite");
    }
  }
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    if (graph.outputs[k] < 0 || static_cast<size_t>(graph.outputs[k]) >= graph.steps.size()) {
      throw InvalidArgument("outputs[" + std::to_string(k) + "] is " + std::to_string(graph.outputs[k]) +
                            ", which is not one of the " + std::to_string(graph.steps.size()) + " steps");
    }
  }
}

Baseline baseline(const Graph& graph) {
  const Cost cost = simulate(graph, plain_schedule(Compact(graph)));
  return {cost.time, cost.peak_bytes};
}

}  // namespace encore::plan
