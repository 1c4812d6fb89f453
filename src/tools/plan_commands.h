// The commands of the planner: plan, curve, simulate.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace encore::tools {

/// What a command ends with. Wrong command lines end with 2.
enum ExitCode : int { kDone = 0, kBadInput = 1, kBadUsage = 2, kRefused = 3 };

/// Adds the commands to `app`; the one that is chosen sets `*exit_code`.
void add_plan_commands(CLI::App* app, int* exit_code);

}  // namespace encore::tools
