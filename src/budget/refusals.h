// What does not fit within the limit, and what is said about it.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include <encore/error.h>

#include "budget/known_steps.h"

namespace encore::budget {

/// "10.6 MiB (11123456 bytes)": two figures that round to the same text still differ.
std::string exact_bytes(int64_t bytes);

/// What rests does not fit.
[[noreturn]] void refuse_resting(int64_t resting_bytes, int64_t limit_bytes, int64_t other_threads_bytes);

/// Steps of a batch that ran, but for which there is no plan.
[[noreturn]] void refuse_batch(int64_t batch, int64_t least_bytes, int64_t limit_bytes);

/// What is to be said where a step is refused that is as the last one so far, and no plan is known for that: the budget
/// for which one is known, and what there is to be saved.
std::string text_of_unplanned(const KnownStep& step, int64_t limit_bytes, int64_t resting_bytes);

/// An allocation that does not fit, as far as it is known why.
struct Refusal {
  BudgetError::Figures figures;
  int64_t nbytes = 0;  // that were asked for
  int64_t shortage_bytes = 0;
  int64_t to_come_bytes = 0;                // foreseen, of what is needed
  std::string unplanned;                    // text_of_unplanned(), where the step is as the last one so far
  std::string held;                         // text_of_held()
  std::optional<std::string> left_plan_at;  // an event
  std::string put_back;                     // when the step has ended
};
std::string text_of(const Refusal& refusal);

/// What the user's own code holds, by the ops that made it.
std::string text_of_held(const std::map<std::string, int64_t>& bytes_by_op);

/// The last refusal of a step. Workers of parallel ops refuse without the tape's lock.
class LastRefusal {
 public:
  void keep(const BudgetError& error, size_t event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    error_ = error;
    event_ = event;
  }
  /// It was of an allocation that the step can do without.
  void forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    error_.reset();
  }
  /// With the event that was to come next.
  std::pair<std::optional<BudgetError>, size_t> get() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {error_, event_};
  }

 private:
  mutable std::mutex mutex_;
  std::optional<BudgetError> error_;
  size_t event_ = 0;
};

}  // namespace encore::budget
