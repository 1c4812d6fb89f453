// The same training steps in several ways: what each needs, and whether it computes the same.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <encore/budget.h>

#include "options.h"
#include "worker.h"

namespace demo {

/// One way to train.
struct Way {
  Way(std::string n, int p, Worker w) : name(std::move(n)), percent(p), worker(std::move(w)) {}

  double least_seconds() const;
  double median_seconds() const;

  std::string name;
  int percent = -1;  ///< of what the plain step adds; -1: no budget, 0: the least that works
  Worker worker;
  int64_t limit_bytes = -1;  ///< -1: none
  int64_t resting_bytes = 0;
  int64_t peak_bytes = 0;
  std::vector<double> seconds;  ///< of each round
  std::vector<StepResult> steps;
  bool bit_identical = false;
  std::string refusal;  ///< why it could not be done; empty if it was
};

class Comparison {
 public:
  /// Starts a process for each way, which waits: before LibTorch computes anything (see Worker).
  Comparison(std::string model, const Options& options);

  /// Lets each way learn, and then all ways do a step in turn, several rounds.
  void measure();

  const std::string& name() const { return name_; }
  /// For the report; without the ways that were refused, and without times where those tell nothing.
  std::vector<encore::RunSystem> systems() const;
  /// As a table for people.
  void print() const;
  /// What a person would tell another, in a line.
  std::string summary() const;
  bool all_bit_identical() const;

 private:
  void learn(Way* way);
  /// Whether the ways differ by more than the rounds of one way do.
  bool times_tell() const;

  std::string name_;
  std::vector<Way> ways_;
};

}  // namespace demo
