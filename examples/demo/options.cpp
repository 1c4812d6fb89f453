// The command line, with CLI11.
#include "options.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <CLI/CLI.hpp>

#include <encore/bytes.h>
#include <encore/error.h>

namespace demo {
namespace {

constexpr int kWrongCommandLine = 2;

constexpr const char* kExamples =
    "Examples:\n"
    "  demo                                        both models, in half of the memory that they need\n"
    "  demo --budget 300MiB --model gpt            a GPT, in 300 MiB for all tensors of the process\n"
    "  demo --budget 40% --model cnn --steps 200   a CNN, longer, in less\n"
    "  demo --model gpt --data my_book.txt         a GPT, on a text of yours\n"
    "Exit codes: 0 done, 1 the budget is too small (the message says what is needed) or a file is missing,\n"
    "2 wrong command line.";

/// What is wrong with the text of a budget; empty if nothing is.
std::string wrong_with_budget(const std::string& text) {
  try {
    parse_budget(text);
    return "";
  } catch (const encore::Error& error) {
    return std::string(error.what()) + "; write bytes such as 300MiB or a part such as 50%";
  }
}

void sort_data(const std::vector<std::string>& paths, Options* options) {
  for (const std::string& path : paths) {
    (std::filesystem::is_directory(path) ? options->image_folder : options->text_file) = path;
  }
  // With one model there is no doubt what the path was meant to be, even if nothing is there.
  if (options->models.size() == 1 && !paths.empty()) {
    (options->models[0] == "gpt" ? options->text_file : options->image_folder) = paths.back();
  }
}

}  // namespace

encore::MemoryBudget BudgetWish::make() const {
  return bytes >= 0 ? encore::MemoryBudget(bytes) : encore::MemoryBudget::fraction(part);
}

BudgetWish parse_budget(const std::string& text) {
  BudgetWish wish;
  if (text.empty() || text.back() != '%') {
    wish.bytes = encore::parse_bytes(text);
    if (wish.bytes == 0) {
      throw encore::InvalidArgument("budget: nothing fits into 0 bytes");
    }
    return wish;
  }
  char* end = nullptr;
  wish.part = std::strtod(text.c_str(), &end) / 100;
  if (end == text.c_str() || std::string_view(end) != "%" || !(wish.part > 0 && wish.part <= 1)) {
    throw encore::InvalidArgument("budget: '" + text + "' is not above 0% and at most 100%");
  }
  return wish;
}

std::string Options::report_of(const std::string& model) const {
  if (model == models.front()) {
    return report;
  }
  const std::filesystem::path path(report);
  return (path.parent_path() / (path.stem().string() + "." + model + path.extension().string())).string();
}

Options parse_options(int argc, char** argv) {
  Options options;
  std::string budget = "50%";
  std::string model = "both";
  std::vector<std::string> data;
  CLI::App app("Trains two models inside a memory budget, and compares that with training plainly.", "demo");
  app.footer(kExamples);
  app.add_option(
         "-b,--budget", budget,
         "Bytes for all tensors (300MiB, 2GB), or a part of what a plain step needs above parameters, gradients "
         "and optimizer state (50%)")
      ->check(CLI::Validator(wrong_with_budget, "BYTES|PERCENT"))
      ->capture_default_str();
  app.add_option("-m,--model", model, "What to train")
      ->check(CLI::IsMember({"gpt", "cnn", "both"}))
      ->capture_default_str();
  CLI::Option* steps = app.add_option("-n,--steps", options.steps, "Training steps of each model")
                           ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
                           ->capture_default_str();
  app.add_option(
         "-d,--data", data,
         "A text file for the GPT, or a folder with the IDX files of Fashion-MNIST or MNIST for the CNN; may be "
         "given once for each")
      ->allow_extra_args(false);
  app.add_option("-t,--threads", options.threads, "Threads of LibTorch's ops; as many as it chooses if not given")
      ->check(CLI::Range(1, 1024));
  app.add_option("-r,--report", options.report,
                 "Where the report goes, a web page. With both models there are two, the second with its model's name "
                 "inserted: report.cnn.html")
      ->capture_default_str();
  app.add_flag("-q,--quick", options.quick, "Tiny models, to see that everything works");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? EXIT_SUCCESS : kWrongCommandLine);
  }
  options.budget = parse_budget(budget);
  if (model != "both") {
    options.models = {model};
  }
  if (options.quick && steps->count() == 0) {
    options.steps = 5;
  }
  sort_data(data, &options);
  return options;
}

}  // namespace demo
