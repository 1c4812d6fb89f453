// Files as texts, and what the commands end with.
#pragma once

#include <string>

namespace encore::tools {

/// What a command ends with. Wrong command lines end with 2.
enum ExitCode : int { kDone = 0, kBadInput = 1, kBadUsage = 2, kRefused = 3 };

/// Both throw InvalidArgument, naming the file.
std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);

}  // namespace encore::tools
