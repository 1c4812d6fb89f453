// Problems, schedules and plans as JSON text.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include <encore/export.h>
#include <encore/plan/chain.h>
#include <encore/plan/curve.h>
#include <encore/plan/graph.h>
#include <encore/plan/planner.h>
#include <encore/plan/schedule.h>

namespace encore::plan {

using Problem = std::variant<Graph, Chain>;

/// Reads "encore-graph-1" or "encore-chain-1". `name` is the file's name for messages. Throws InvalidArgument naming
/// the file, the step or stage, and the field; what it returns has passed check().
ENCORE_API Problem read_problem(std::string_view text, const std::string& name);
/// Reads "encore-schedule-1": {"format": ..., "schedule": [["compute", 0], ["encode", 0, 1], ["drop", 3], ...]}, or the
/// output of `encore plan --json`. Steps are checked against `graph`.
ENCORE_API Schedule read_schedule(std::string_view text, const std::string& name, const Graph& graph);

ENCORE_API std::string write_graph(const Graph& graph);
ENCORE_API std::string write_chain(const Chain& chain);
ENCORE_API std::string write_schedule(const Schedule& schedule);
/// What `encore plan --json` prints.
ENCORE_API std::string write_plan(const Plan& plan, double planning_seconds);
/// What `encore curve --json` prints.
ENCORE_API std::string write_curve(const std::vector<CurvePoint>& curve, const Baseline& baseline);

}  // namespace encore::plan
