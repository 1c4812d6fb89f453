// Uses what needs no LibTorch.
#include <encore/bytes.h>
#include <encore/plan/planner.h>
#include <encore/version.h>

int main() {
  encore::plan::Graph graph;
  graph.steps.push_back({});
  const bool planned = encore::plan::plan(graph, 1 << 20).feasible;
  return planned && encore::parse_bytes("1KiB") == 1024 && ENCORE_VERSION_MAJOR == 0 ? 0 : 1;
}
