// What the user asked for on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <encore/budget.h>

namespace demo {

/// A budget as the user states it: bytes, or a part of what the plain step needs.
struct BudgetWish {
  int64_t bytes = -1;  ///< -1: `part` counts
  double part = 0.5;

  encore::MemoryBudget make() const;
};

/// "300MiB", "50%". Throws encore::InvalidArgument for anything else.
BudgetWish parse_budget(const std::string& text);

struct Options {
  BudgetWish budget;
  std::vector<std::string> models = {"gpt", "cnn"};
  int64_t steps = 30;
  std::string text_file;     ///< for the GPT; empty: the text that comes with the demo
  std::string image_folder;  ///< for the CNN; empty: where Debian's package puts Fashion-MNIST
  int threads = 0;           ///< 0: as many as LibTorch chooses
  std::string report = "report.html";
  bool quick = false;

  /// Where the report of `model` goes: `report` for the first one; for others beside it, with the model's name
  /// inserted.
  std::string report_of(const std::string& model) const;
};

/// Exits the program, after words on stderr, where the command line is wrong, and after --help.
Options parse_options(int argc, char** argv);

}  // namespace demo
