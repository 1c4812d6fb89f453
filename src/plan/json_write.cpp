// The writers of the JSON formats.
#include <nlohmann/json.hpp>

#include <encore/plan/json.h>

#include "plan/names.h"

namespace encore::plan {
namespace {

using json = nlohmann::ordered_json;

// Names may hold any bytes; what isn't UTF-8 is replaced, not refused.
std::string text_of(const json& value, int indent = -1) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace) + "\n";
}

json ops_of(const Schedule& schedule) {
  json ops = json::array();
  for (const Op& op : schedule) {
    json item = {name_of(op.kind), op.step};
    if (op.kind == OpKind::kEncode) {
      item.push_back(op.variant);
    }
    ops.push_back(std::move(item));
  }
  return ops;
}

}  // namespace

std::string write_graph(const Graph& graph) {
  json steps = json::array();
  for (const Step& step : graph.steps) {
    json item{{"name", step.name},
              {"time", step.time},
              {"bytes", step.bytes},
              {"temp_bytes", step.temp_bytes},
              {"inputs", step.inputs}};
    if (step.background_bytes != 0) {
      item["background_bytes"] = step.background_bytes;
    }
    if (step.held_until >= 0) {
      item["held_until"] = step.held_until;
    }
    for (const Variant& variant : step.variants) {
      item["variants"].push_back({{"kind", variant.kind},
                                  {"bytes", variant.bytes},
                                  {"encode_time", variant.encode_time},
                                  {"decode_time", variant.decode_time}});
    }
    steps.push_back(std::move(item));
  }
  return text_of({{"format", "encore-graph-1"}, {"steps", std::move(steps)}, {"outputs", graph.outputs}});
}

std::string write_chain(const Chain& chain) {
  json stages = json::array();
  for (const Stage& stage : chain.stages) {
    stages.push_back({{"forward_time", stage.forward_time},
                      {"backward_time", stage.backward_time},
                      {"output_bytes", stage.output_bytes},
                      {"saved_bytes", stage.saved_bytes},
                      {"forward_temp_bytes", stage.forward_temp_bytes},
                      {"backward_temp_bytes", stage.backward_temp_bytes}});
  }
  return text_of({{"format", "encore-chain-1"}, {"input_bytes", chain.input_bytes}, {"stages", std::move(stages)}});
}

std::string write_schedule(const Schedule& schedule) {
  return text_of({{"format", "encore-schedule-1"}, {"schedule", ops_of(schedule)}});
}

std::string write_plan(const Plan& plan, double planning_seconds) {
  json root{{"format", "encore-plan-1"},
            {"feasible", plan.feasible},
            {"time", nullptr},
            {"baseline_time", plan.baseline_time},
            {"peak_bytes", nullptr},
            {"budget_bytes", plan.budget_bytes},
            {"baseline_peak_bytes", plan.baseline_peak_bytes},
            {"min_feasible_bytes", plan.min_feasible_bytes},
            {"min_feasible_proof", name_of(plan.min_feasible_proof)},
            {"min_bytes_lower_bound", plan.min_bytes_lower_bound},
            {"lower_bound_time", plan.lower_bound_time},
            {"lower_bound_proof", name_of(plan.lower_bound_proof)},
            {"planning_seconds", planning_seconds},
            {"method", plan.method},
            {"schedule", ops_of(plan.schedule)}};
  if (plan.feasible) {
    root["time"] = plan.time;
    root["peak_bytes"] = plan.peak_bytes;
  }
  if (!plan.refusal.empty()) {
    root["refusal"] = plan.refusal;
  }
  return text_of(root);
}

std::string write_curve(const std::vector<CurvePoint>& curve, const Baseline& baseline) {
  json points = json::array();
  for (const CurvePoint& point : curve) {
    points.push_back({{"budget_bytes", point.budget_bytes},
                      {"time", point.time},
                      {"lower_bound_time", point.lower_bound_time},
                      {"schedule", ops_of(point.schedule)}});
  }
  return text_of({{"format", "encore-curve-1"},
                  {"baseline_time", baseline.time},
                  {"baseline_peak_bytes", baseline.peak_bytes},
                  {"points", std::move(points)}});
}

}  // namespace encore::plan
