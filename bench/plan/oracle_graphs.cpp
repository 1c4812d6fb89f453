// Prints the small graphs and budgets that the oracle solves, one JSON object a line. Usage: oracle_graphs COUNT
#include <cstdio>
#include <cstdlib>

#include <encore/plan/json.h>
#include <encore/plan/planner.h>

#include "small_graphs.h"

int main(int argc, char** argv) {
  using namespace encore::plan;
  const int count = argc > 1 ? std::atoi(argv[1]) : 100;
  const auto& families = bench::small_families();
  for (int k = 0; k < count; ++k) {
    const std::string& family = families[static_cast<size_t>(k) % families.size()];
    const Graph graph = bench::small_graph(family, 6 + (k / 5) % 5, static_cast<uint64_t>(k) + 1);
    PlanOptions options;
    options.exact_states = 20'000'000;
    const Plan plain = plan(graph, baseline(graph).peak_bytes, options);
    const auto least = static_cast<double>(plain.min_feasible_bytes);
    const double range = static_cast<double>(plain.baseline_peak_bytes) - least;
    std::string text = write_graph(graph);
    text.pop_back();
    std::printf(
        "{\"name\":\"%s-%d\",\"least\":%lld,\"least_proof\":\"%s\",\"budgets\":[%lld,%lld,%lld],\"graph\":%s}\n",
        family.c_str(), k, static_cast<long long>(plain.min_feasible_bytes),
        plain.min_feasible_proof == Proof::kExact ? "exact" : "bound", static_cast<long long>(least * 1.05 + 0.999),
        static_cast<long long>(least + 0.35 * range), static_cast<long long>(least + 0.7 * range), text.c_str());
    std::fflush(stdout);
  }
  return 0;
}
