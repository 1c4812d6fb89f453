// Reads a run, writes it as a page or as a trace.
#include "tools/report_commands.h"

#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include <encore/error.h>

#include "report/run.h"
#include "tools/files.h"

namespace encore::tools {
namespace {

struct Conversion {
  std::string run;
  std::string output;
};

int convert(const Conversion& options, std::string (*form)(const report::Run&)) {
  const report::Run run = report::run_from_json(read_file(options.run), options.run);
  std::error_code unknown;
  if (std::filesystem::equivalent(options.run, options.output, unknown)) {
    throw InvalidArgument(options.output + ": is the run itself; name another file with --output");
  }
  write_file(options.output, form(run));
  return kDone;
}

}  // namespace

void add_report_commands(CLI::App* app, int* exit_code) {
  auto options = std::make_shared<Conversion>();
  const auto command = [&](const char* name, const char* what, const char* output, const char* footer,
                           std::string (*form)(const report::Run&)) {
    CLI::App* sub = app->add_subcommand(name, what);
    sub->add_option("run", options->run, "Run, JSON (encore-run-1)")->required();
    sub->add_option("--output,-o", options->output, output)->required();
    sub->footer(footer);
    sub->callback([=] { *exit_code = convert(*options, form); });
  };
  command("report", "A run as one web page: memory, plan, values, steps", "Write the page to this file",
          "Example: encore report run.json -o report.html\nThe page needs no network; open it in any browser.",
          report::to_html);
  command("trace", "A run's events over time, for Perfetto or Chrome", "Write the trace to this file",
          "Example: encore trace run.json -o trace.json\nOpen it at https://ui.perfetto.dev or chrome://tracing.",
          report::to_chrome_trace);
}

}  // namespace encore::tools
