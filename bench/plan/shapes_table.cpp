// Overheads of the named networks at several budgets. Usage: bench_plan_shapes_table [--quick]
#include <cstdio>
#include <ctime>
#include <string>

#include <encore/bytes.h>
#include <encore/plan/planner.h>

#include "net.h"

int main(int argc, char** argv) {
  using namespace encore::plan;
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  std::printf("\nNamed networks: overhead in time (lower bound in brackets) at parts of the plain peak\n");
  std::printf("%-13s %6s %10s |", "network", "steps", "plain peak");
  for (const int percent : {90, 80, 70, 50, 30}) {
    std::printf(" %10d%%      ", percent);
  }
  std::printf("| least known, bound | most cpu s\n");
  for (const auto& [name, graph] : bench::real_shapes()) {
    if (quick && graph.steps.size() > 3000) {
      continue;
    }
    const int64_t peak = baseline(graph).peak_bytes;
    std::printf("%-13s %6zu %10s |", name.c_str(), graph.steps.size(), encore::format_bytes(peak).c_str());
    double longest = 0;
    Plan answer;
    int64_t least = peak;
    for (const int percent : {90, 80, 70, 50, 30}) {
      const std::clock_t start = std::clock();
      answer = plan(graph, parse_budget(std::to_string(percent) + "%", peak));
      longest = std::max(longest, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
      least = std::min(least, answer.min_feasible_bytes);
      if (answer.feasible) {
        std::printf(" %6.2f%% (%6.2f%%)", 100 * (answer.time / answer.baseline_time - 1),
                    100 * (answer.lower_bound_time / answer.baseline_time - 1));
      } else {
        std::printf(" %17s", answer.min_bytes_lower_bound > answer.budget_bytes ? "impossible" : "none known");
      }
      std::fflush(stdout);
    }
    std::printf(" | %5.1f%%, %5.1f%% | %.2f\n", 100.0 * static_cast<double>(least) / static_cast<double>(peak),
                100.0 * static_cast<double>(answer.min_bytes_lower_bound) / static_cast<double>(peak), longest);
  }
  return 0;
}
