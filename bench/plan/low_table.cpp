// Overheads at low budgets of networks that are not chains, next to online eviction. Usage: bench_plan_low_table
// [--quick] [FILE ...], the files being graphs in JSON that take the place of the generated ones.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

#include <encore/plan/json.h>
#include <encore/plan/planner.h>
#include <encore/plan/simulate.h>

#include "dtr.h"
#include "net.h"

namespace {

using namespace encore::plan;

void row(const std::string& name, const Graph& graph) {
  const Baseline base = baseline(graph);
  // A recorded step has bytes behind it that are there whatever is planned: parts are of what lies above them.
  int64_t rest = base.peak_bytes;
  for (const Step& step : graph.steps) {
    rest = std::min(rest, step.background_bytes);
  }
  const auto above = static_cast<double>(base.peak_bytes - rest);
  const auto part = [&](int64_t bytes) { return 100 * static_cast<double>(bytes - rest) / above; };
  std::printf("%-16s %6zu |", name.c_str(), graph.steps.size());
  double longest = 0;
  const auto cell = [&](int64_t budget) {
    const std::clock_t start = std::clock();
    const Plan answer = plan(graph, budget);
    longest = std::max(longest, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    const auto computes = static_cast<int64_t>(40 * graph.steps.size());
    const bench::DtrResult peer = bench::dtr(graph, budget, computes);
    char own[32] = "-";
    char other[32] = "-";
    if (answer.feasible) {
      simulate(graph, answer.schedule);
      std::snprintf(own, sizeof own, "%.1f (%.1f)", 100 * (answer.time / base.time - 1),
                    100 * (answer.lower_bound_time / base.time - 1));
    }
    if (peer.done) {
      std::snprintf(other, sizeof other, "%.1f", 100 * (peer.time / base.time - 1));
    }
    std::printf(" %14s / %-6s", own, other);
    std::fflush(stdout);
    return answer;
  };
  Plan last;
  for (const double percent : {50, 40, 30, 25, 20}) {
    last = cell(rest + static_cast<int64_t>(percent / 100 * above));
  }
  cell(last.min_feasible_bytes);
  std::printf("| %5.1f%% %5.1f%% %5.2f | %.2f\n", part(last.min_feasible_bytes), part(last.min_bytes_lower_bound),
              part(last.min_feasible_bytes) / part(last.min_bytes_lower_bound), longest);
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const std::vector<std::string> files(argv + (quick ? 2 : 1), argv + argc);
  std::printf("\nLow budgets: overhead in %% (lower bound in brackets) / online eviction's (DTR)\n");
  std::printf("%-16s %6s |%18s %23s %23s %23s %23s %23s      | least, bound, ratio | most cpu s\n", "graph", "steps", "50%",
              "40%", "30%", "25%", "20%", "least");
  for (const std::string& file : files) {
    std::ifstream in(file);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    row(file.substr(file.rfind('/') + 1), std::get<Graph>(read_problem(text, file)));
  }
  if (!files.empty()) {
    return 0;
  }
  std::vector<bench::Shape> all = bench::wide_shapes();
  all.push_back({"GPT of 4, peer's", bench::gpt(4, 256, 4, 128, 4, false, 1000)});
  all.push_back({"ResNet-18, 128", bench::resnet18(4, 128)});
  all.push_back({"ResNet-50, 128", bench::resnet50(4, 128)});
  for (const auto& [name, graph] : all) {
    if (!quick || graph.steps.size() <= 1100) {
      row(name, graph);
    }
  }
  return 0;
}
