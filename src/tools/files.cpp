// Reads and writes whole files.
#include "tools/files.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <encore/error.h>

namespace encore::tools {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (std::filesystem::is_directory(path)) {
    throw InvalidArgument(path + ": is a folder");
  }
  if (!file || !(text << file.rdbuf())) {
    // An empty file also fails to stream; it is left to the reader, which says what is wrong with it.
    if (!file.is_open() || file.bad()) {
      throw InvalidArgument(path + ": can't be read");
    }
  }
  return text.str();
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    throw InvalidArgument(path + ": can't be written");
  }
}

}  // namespace encore::tools
