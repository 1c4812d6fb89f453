// `make demo`: trains a GPT and a CNN inside a memory budget, and compares that with training plainly.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>

#include <ATen/Parallel.h>

#include <encore/encore.h>

#include "compare.h"
#include "models.h"
#include "options.h"
#include "train.h"

namespace {

void write_report(const std::string& path, const std::string& page) {
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) {
    std::filesystem::create_directories(folder);
  }
  std::ofstream file(path, std::ios::binary);
  file << page;
  file.close();
  if (!file) {
    throw encore::InvalidArgument(path + ": can't be written; name another file with --report");
  }
}

void run(const demo::Subject& subject, const demo::Options& options, demo::Comparison* comparison) {
  std::printf("%s: %s\n", subject.name.c_str(), subject.description.c_str());
  encore::MemoryBudget budget = options.budget.make();
  try {
    demo::train(subject, options.steps, budget);
  } catch (const encore::BudgetError&) {
    // Why it was refused, and what would do, is easier to see there.
    write_report(options.report_of(subject.name), budget.run_html(subject.name));
    std::printf("Report: %s\n", options.report_of(subject.name).c_str());
    throw;
  }
  comparison->measure();
  std::printf("  writing the report\n\n");
  write_report(options.report_of(subject.name), budget.run_html(subject.name, comparison->systems()));
}

int run_all(const demo::Options& options) {
  // Their processes must be there before LibTorch computes anything.
  std::vector<demo::Comparison> comparisons;
  for (const std::string& name : options.models) {
    comparisons.emplace_back(name, options);
  }
  // The first call begins the counting: tensors made before it would be missing from the figures.
  encore::live_tensor_bytes();
  if (options.threads > 0) {
    at::set_num_threads(options.threads);
  }
  // All data is read before anything runs: a file that is missing should be known at once.
  std::vector<demo::Subject> subjects;
  for (const std::string& name : options.models) {
    subjects.push_back(demo::make_subject(name, options));
  }
  for (size_t i = 0; i < subjects.size(); ++i) {
    run(subjects[i], options, &comparisons[i]);
  }
  bool all_bit_identical = true;
  for (const demo::Comparison& comparison : comparisons) {
    comparison.print();
    all_bit_identical = all_bit_identical && comparison.all_bit_identical();
  }
  std::printf("A budget is for all tensors; its percents, and those of the peaks, are of what a plain step adds.\n");
  for (const demo::Comparison& comparison : comparisons) {
    std::printf("Report: %s\n", options.report_of(comparison.name()).c_str());
  }
  std::printf("\n");
  for (const demo::Comparison& comparison : comparisons) {
    std::printf("%s\n", comparison.summary().c_str());
  }
  std::printf("%s\n", all_bit_identical ? "Losses and gradients are those of plain LibTorch in every step, bit for bit."
                                        : "Losses or gradients DIFFER from those of plain LibTorch.");
  return all_bit_identical ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const demo::Options options = demo::parse_options(argc, argv);
  try {
    return run_all(options);
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "demo: %s\n", error.what());
    return 1;
  }
}
