// The same random programs within budgets, again and again in one process, of which nothing may grow.
//
//   ENCORE_SOAK_MINUTES=20 test_random --gtest_filter='Soak.*'
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "random/program.h"

namespace encore::test {
namespace {

struct Sample {
  double minutes = 0;
  int64_t programs = 0;
  int64_t live_bytes = 0;
  int64_t process_bytes = 0;
  int64_t descriptors = 0;
};

Sample sample_now() {
  Sample sample;
  sample.live_bytes = live_tensor_bytes();
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;  // the second number: resident
  sample.process_bytes = pages * sysconf(_SC_PAGESIZE);
  for ([[maybe_unused]] const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++sample.descriptors;
  }
  return sample;
}

/// What grew from the second quarter of the samples to the last; empty if nothing did. Of the process a percent may be
/// the allocator's: fragments differ from round to round.
std::string what_grew(const std::vector<Sample>& samples) {
  constexpr int64_t kPercent = 100;
  const size_t quarter = samples.size() / 4;
  const auto most = [&](size_t first, int64_t Sample::*figure) {
    int64_t largest = 0;
    for (size_t i = first; i < first + std::max<size_t>(1, quarter); ++i) {
      largest = std::max(largest, samples[i].*figure);
    }
    return largest;
  };
  std::string grown;
  const auto compare = [&](const char* name, int64_t Sample::*figure, int64_t allowed_part) {
    const int64_t before = most(quarter, figure);
    const int64_t after = most(samples.size() - std::max<size_t>(1, quarter), figure);
    if (after > before + (allowed_part == 0 ? 0 : before / allowed_part)) {
      grown += std::string(name) + " from " + std::to_string(before) + " to " + std::to_string(after) + "; ";
    }
  };
  compare("live bytes", &Sample::live_bytes, 0);
  compare("bytes of the process", &Sample::process_bytes, kPercent);
  compare("open descriptors", &Sample::descriptors, 0);
  return grown;
}

/// Programs that the plain run takes, that are equal within budgets and of which LibTorch itself leaves nothing behind.
std::vector<Program> find_programs(size_t wanted) {
  std::vector<Program> programs;
  for (uint64_t seed = 1; programs.size() < wanted; ++seed) {
    Program program = make_program(seed, /*hostile=*/seed % 2 == 0);
    give_budget(program);
    const std::string found = check_program(program);
    if (found.empty()) {
      programs.push_back(std::move(program));
    } else if (found != "skip" && found.rfind("refused", 0) != 0 && found.rfind("unsteady", 0) != 0) {
      ADD_FAILURE() << "seed " << seed << ": " << found;
      return programs;
    }
  }
  return programs;
}

TEST(Soak, NothingGrows) {
  const char* const asked = std::getenv("ENCORE_SOAK_MINUTES");
  const double minutes = asked == nullptr ? 0 : std::strtod(asked, nullptr);
  const std::vector<Program> programs = find_programs(asked == nullptr ? 12 : 100);
  constexpr size_t kFewest = 8;  // rounds
  std::vector<Sample> samples;
  const auto start = std::chrono::steady_clock::now();
  for (Sample sample; samples.size() < kFewest || sample.minutes < minutes;) {
    for (const Program& program : programs) {
      ASSERT_EQ(check_program(program), "") << program.text();
    }
    sample = sample_now();
    sample.minutes = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 60;
    sample.programs = static_cast<int64_t>((samples.size() + 1) * programs.size());
    samples.push_back(sample);
    if (asked != nullptr) {
      std::printf("%6.1f minutes %7lld programs  live %lld bytes  process %.1f MiB  %lld descriptors\n", sample.minutes,
                  static_cast<long long>(sample.programs), static_cast<long long>(sample.live_bytes),
                  static_cast<double>(sample.process_bytes) / (1 << 20), static_cast<long long>(sample.descriptors));
      std::fflush(stdout);
    }
  }
  EXPECT_EQ(what_grew(samples), "");
}

TEST(Soak, GrowthIsFound) {
  const Sample flat{1, 100, 4096, 100 << 20, 5};
  std::vector<Sample> samples(40, flat);
  samples.front().process_bytes += 50 << 20;  // the first rounds are the warm-up
  EXPECT_EQ(what_grew(samples), "");
  samples.back().live_bytes += 1;
  EXPECT_NE(what_grew(samples).find("live bytes from 4096 to 4097"), std::string::npos);
  samples.back() = flat;
  samples.back().process_bytes += 2 << 20;
  EXPECT_NE(what_grew(samples).find("bytes of the process"), std::string::npos);
  samples.back() = flat;
  samples.back().descriptors += 1;
  EXPECT_NE(what_grew(samples).find("open descriptors from 5 to 6"), std::string::npos);
}

}  // namespace
}  // namespace encore::test
