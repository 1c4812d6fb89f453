// The commands that show a run: report, trace.
#pragma once

namespace CLI {
class App;
}

namespace encore::tools {

/// Adds the commands to `app`; the one that is chosen sets `*exit_code`.
void add_report_commands(CLI::App* app, int* exit_code);

}  // namespace encore::tools
