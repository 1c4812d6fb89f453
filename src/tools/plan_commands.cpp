// Reads files, calls the planner, prints for people or as JSON.
#include "tools/plan_commands.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <sstream>

#include <CLI/CLI.hpp>

#include <encore/bytes.h>
#include <encore/error.h>
#include <encore/plan/curve.h>
#include <encore/plan/json.h>
#include <encore/plan/planner.h>
#include <encore/plan/validate.h>

#include "base/plain_numbers.h"
#include "plan/names.h"
#include "report/curve_svg.h"
#include "tools/files.h"

namespace encore::tools {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Says how far the work is, on a terminal, once it takes more than a second.
class Progress {
 public:
  explicit Progress(const char* what) : what_(what), terminal_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (shown_ > 0) {
      std::fprintf(stderr, "\r%*s\r", 40, "");
    }
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void operator()(double part) {
    const double now = seconds_since(start_);
    if (terminal_ && now > 1 && now - shown_ > 0.2) {
      std::fprintf(stderr, "\r%s: %3.0f%%", what_, 100 * part);
      shown_ = now;
    }
  }

 private:
  const char* what_;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  double shown_ = 0;
};

struct Options {
  std::string problem;
  std::string schedule;
  std::string budget;
  std::string output;
  bool json = false;
  plan::PlanOptions plan;
  int32_t points = 24;
};

plan::Graph graph_of(const plan::Problem& problem) {
  const auto* chain = std::get_if<plan::Chain>(&problem);
  return chain != nullptr ? plan::to_graph(*chain) : std::get<plan::Graph>(problem);
}

std::string percent(double part, double whole) {
  return number_text("%.1f%%", whole > 0 ? 100 * part / whole : 100);
}

std::string for_people(const plan::Plan& plan) {
  const auto bytes = [&](int64_t count) {
    return format_bytes(count) + " (" +
           percent(static_cast<double>(count), static_cast<double>(plan.baseline_peak_bytes)) + " of the plain peak)";
  };
  std::ostringstream text;
  text << "budget        " << bytes(plan.budget_bytes) << "\n"
       << "plain run     time " << plan.baseline_time << ", peak " << format_bytes(plan.baseline_peak_bytes) << "\n";
  if (plan.feasible) {
    text << "plan          time " << plan.time << " (+"
         << percent(plan.time - plan.baseline_time, plan.baseline_time > 0 ? plan.baseline_time : 1) << "), peak "
         << bytes(plan.peak_bytes) << ", found by: " << plan.method << "\n"
         << "lower bound   time " << plan.lower_bound_time << " (" << name_of(plan.lower_bound_proof) << ")\n";
  }
  text << "least budget  " << bytes(plan.min_feasible_bytes) << " (" << name_of(plan.min_feasible_proof)
       << "; none below " << format_bytes(plan.min_bytes_lower_bound) << ")\n";
  return text.str();
}

int run_plan(Options options) {
  const plan::Problem problem = plan::read_problem(read_file(options.problem), options.problem);
  const int64_t peak = plan::baseline(graph_of(problem)).peak_bytes;
  const int64_t budget = plan::parse_budget(options.budget, peak);
  Progress progress("planning");
  options.plan.progress = std::ref(progress);
  const auto start = Clock::now();
  const plan::Plan answer = std::visit([&](const auto& p) { return plan::plan(p, budget, options.plan); }, problem);
  const double seconds = seconds_since(start);
  if (options.json) {
    std::cout << plan::write_plan(answer, seconds);
  } else {
    std::cout << for_people(answer);
  }
  if (!options.output.empty() && answer.feasible) {
    write_file(options.output, plan::write_schedule(answer.schedule));
  }
  if (!answer.feasible) {
    std::cerr << "encore: " << options.problem << ": no schedule within " << budget << " bytes is known; at least "
              << answer.min_feasible_bytes << " bytes (" << format_bytes(answer.min_feasible_bytes)
              << ") would do; raise --budget\n";
    if (!answer.refusal.empty()) {
      std::cerr << "encore: " << answer.refusal << "\n";
    }
    return kRefused;
  }
  return kDone;
}

int run_curve(Options options) {
  const plan::Problem problem = plan::read_problem(read_file(options.problem), options.problem);
  const plan::Baseline base = plan::baseline(graph_of(problem));
  Progress progress("curve");
  options.plan.progress = std::ref(progress);
  const plan::CurveOptions curve_options{options.points, options.plan};
  const auto points = std::visit([&](const auto& p) { return plan::curve(p, curve_options); }, problem);
  if (options.json) {
    std::cout << plan::write_curve(points, base);
  } else {
    std::cout << "        peak bytes  of plain          time  overhead  at least\n";
    for (const auto& point : points) {
      std::printf("%18lld  %8s  %12.6g  %8s  %8s\n", static_cast<long long>(point.budget_bytes),
                  percent(static_cast<double>(point.budget_bytes), static_cast<double>(base.peak_bytes)).c_str(),
                  point.time, percent(point.time - base.time, base.time > 0 ? base.time : 1).c_str(),
                  percent(point.lower_bound_time - base.time, base.time > 0 ? base.time : 1).c_str());
    }
  }
  if (!options.output.empty()) {
    std::vector<report::CurveSample> samples;
    samples.reserve(points.size());
    for (const auto& point : points) {
      samples.push_back({static_cast<double>(point.budget_bytes), point.time, point.lower_bound_time});
    }
    write_file(options.output, report::curve_svg(options.problem, samples, base.time));
  }
  return kDone;
}

int run_simulate(const Options& options) {
  const plan::Graph graph = graph_of(plan::read_problem(read_file(options.problem), options.problem));
  const plan::Schedule schedule = plan::read_schedule(read_file(options.schedule), options.schedule, graph);
  const plan::Verdict verdict = plan::validate(graph, schedule);
  if (!verdict.valid) {
    std::cerr << "encore: " << options.schedule << ": " << verdict.problem << "\n";
    return kRefused;
  }
  const plan::Baseline base = plan::baseline(graph);
  if (options.json) {
    std::printf("{\"valid\":true,\"time\":%.17g,\"peak_bytes\":%lld,\"in_order\":%s}\n", verdict.time,
                static_cast<long long>(verdict.peak_bytes), verdict.in_order ? "true" : "false");
  } else {
    std::cout << "time  " << verdict.time << " (+" << percent(verdict.time - base.time, base.time > 0 ? base.time : 1)
              << ")\npeak  " << verdict.peak_bytes << " bytes ("
              << percent(static_cast<double>(verdict.peak_bytes), static_cast<double>(base.peak_bytes))
              << " of the plain peak)\norder " << (verdict.in_order ? "of the graph" : "not that of the graph") << "\n";
  }
  return kDone;
}

}  // namespace

void add_plan_commands(CLI::App* app, int* exit_code) {
  auto options = std::make_shared<Options>();
  const auto command = [&](const char* name, const char* what, auto run) {
    CLI::App* sub = app->add_subcommand(name, what);
    sub->add_option("problem", options->problem, "Graph or chain, JSON (encore-graph-1, encore-chain-1)")->required();
    sub->add_flag("--json", options->json, "Print JSON");
    sub->callback([=] { *exit_code = run(*options); });
    return sub;
  };
  const auto search_options = [&](CLI::App* sub) {
    sub->add_option("--effort", options->plan.effort, "Work of the search, millions of operations; -1: by size");
    sub->add_option("--seconds", options->plan.seconds, "Graphs: go on searching for so long")
        ->check(CLI::Range(0.0, 1e9))
        ->check([](const std::string& text) -> std::string {  // nan is neither above nor below
          return text.find_first_of("nN") == std::string::npos ? "" : text + " is not a number";
        });
    sub->add_option("--exact-states", options->plan.exact_states,
                    "States of the exact search of small graphs; 0: none");
    sub->add_flag("--exact", options->plan.exact, "Chains: exact to the byte, at whatever cost");
  };
  CLI::App* plan = command("plan", "The least time within a budget", run_plan);
  plan->add_option("--budget,-b", options->budget, "80% of the plain run's peak, 512MiB, 2GB or bytes")->required();
  plan->add_option("--output,-o", options->output, "Write the schedule to this file");
  search_options(plan);
  plan->footer(
      "Example: encore plan graph.json --budget 80% --json\nExit code 3: no schedule within the budget is known.");
  CLI::App* curve = command("curve", "The whole memory/time curve", run_curve);
  curve->add_option("--points", options->points, "Budgets to plan for")->check(CLI::Range(1, 100000));
  curve->add_option("--svg", options->output, "Draw the curve into this file");
  search_options(curve);
  curve->footer("Example: encore curve graph.json --svg curve.svg");
  CLI::App* simulate = command("simulate", "Time and peak of a schedule, by the independent checker", run_simulate);
  simulate->add_option("schedule", options->schedule, "Schedule, or what `encore plan --json` printed")->required();
  simulate->footer("Example: encore simulate graph.json schedule.json\nExit code 3: the schedule isn't valid.");
}

}  // namespace encore::tools
