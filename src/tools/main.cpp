// The `encore` command.
#include <exception>
#include <iostream>

#include <CLI/CLI.hpp>

#include <encore/version.h>

#include "tools/files.h"
#include "tools/plan_commands.h"
#include "tools/report_commands.h"

int main(int argc, char** argv) {
  using encore::tools::ExitCode;
  CLI::App app(
      "Plans which values of a training step to keep and which to compute again, within a byte budget, and shows runs.",
      "encore");
  app.set_version_flag("--version", "encore " ENCORE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  encore plan graph.json --budget 80%                least time within 80% of the plain peak\n"
      "  encore plan chain.json --budget 2GiB --json        the answer with its schedule, as JSON\n"
      "  encore curve graph.json --svg curve.svg            time over memory\n"
      "  encore simulate graph.json schedule.json           check a schedule\n"
      "  encore report run.json -o report.html              a run as a web page\n"
      "  encore trace run.json -o trace.json                a run for Perfetto or Chrome\n"
      "Exit codes: 0 done, 1 bad input, 2 wrong command line, 3 budget or schedule refused.");
  int exit_code = encore::tools::kDone;
  encore::tools::add_plan_commands(&app, &exit_code);
  encore::tools::add_report_commands(&app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? encore::tools::kDone : encore::tools::kBadUsage;
  } catch (const std::exception& error) {
    std::cerr << "encore: " << error.what() << "\n";
    return encore::tools::kBadInput;
  }
  return exit_code;
}
