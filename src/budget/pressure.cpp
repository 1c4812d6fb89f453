// An allocation that would pass the limit: making room for it, or refusing it.
#include <ATen/Parallel.h>

#include <encore/bytes.h>
#include <encore/error.h>

#include "base/clock.h"
#include "budget/step_governor.h"
#include "record/recorder.h"
#include "tape/random.h"

namespace encore::budget {
namespace {

using tape::kNone;
using tape::ValueId;

// Under pressure at least this part of the limit is freed at a time, so that prices are not worked out at every op.
constexpr int64_t kBatch = 128;
// How long a random op waits for another thread to be done with the tape.
constexpr int kPatienceMs = 1000;

/// Adds the time it lives to a counter.
class Stopwatch {
 public:
  Stopwatch(int64_t& total, int64_t& away) : total_(total), away_(away), start_(now_ns()) {}
  ~Stopwatch() {
    const int64_t elapsed = now_ns() - start_;
    total_ += elapsed;
    away_ += elapsed;
  }
  int64_t start_ns() const { return start_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  int64_t& total_;
  int64_t& away_;
  int64_t start_;
};

}  // namespace

void StepGovernor::make_room(int64_t shortage, int64_t nbytes) {
  const auto region = region_.lock();
  if (!region) {
    refuse(shortage, nbytes, /*is_locked=*/false);
  }
  std::unique_lock<std::recursive_mutex> lock(region->tape().mutex(), std::defer_lock);
  // A worker of a parallel op must not wait for the thread that waits for it, nor a random op for a replay that waits
  // for the random lock.
  if (at::in_parallel_region()) {
    (void)lock.try_lock();
  } else if (tape::RandomMutex::is_mine()) {
    for (int i = 0; i < kPatienceMs && !lock.try_lock(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } else {
    lock.lock();
  }
  if (!lock.owns_lock()) {
    refuse(shortage, nbytes, /*is_locked=*/false);
  }
  if (!running_) {
    return;  // ended while this thread waited, and the limit is off
  }
  const Stopwatch watch(figures_.evict_ns, away_ns_);
  const record::Recorder::Pause pause;
  std::vector<std::pair<double, ValueId>> candidates;
  for (const ValueId value : region->held_values()) {
    if (region->tape().value(value).nbytes > 0 && region->can_evict(value)) {
      candidates.emplace_back(prices_.of(region->tape(), value), value);
    }
  }
  std::sort(candidates.begin(), candidates.end());
  int64_t freed = 0;
  for (const auto& [price, value] : candidates) {
    if (freed >= std::max(shortage, setting_.limit_bytes / kBatch) || (itinerary_ && freed >= shortage)) {
      break;
    }
    const int64_t bytes = region->tape().value(value).nbytes;
    if (region->evict(value)) {
      freed += bytes;
      ++figures_.evictions;
      figures_.evicted_bytes += bytes;
    }
  }
  if (freed == 0 && !packed_.empty() && !packing_) {
    packed_.clear();  // numbers can be drawn again
  } else if (freed == 0) {
    refuse(shortage, nbytes, /*is_locked=*/true);
  }
  journal_.asides.push_back({"evict", watch.start_ns(), now_ns() - watch.start_ns()});
}

void StepGovernor::refuse(int64_t shortage, int64_t nbytes, bool is_locked) {
  BudgetError::Figures figures;
  figures.limit_bytes = setting_.limit_bytes;
  figures.needed_bytes = setting_.limit_bytes + shortage;
  int64_t most = 0;
  if (const auto region = region_.lock(); region && is_locked) {
    for (const Event& event : journal_.events) {
      if (event.other_peak - event.other_before >= most) {
        most = event.other_peak - event.other_before;
        figures.op = event.op == kNone ? event.node : region->tape().describe_op(event.op);
      }
    }
  }
  const std::string message =
      "budget: an allocation of " + format_bytes(nbytes) + " needs " + format_bytes(figures.needed_bytes) +
      " in all (" + std::to_string(figures.needed_bytes) + " bytes), the budget is " +
      format_bytes(figures.limit_bytes) + ", and nothing is left that could be given up" +
      (figures.op.empty() ? "" : "; the largest op so far is " + figures.op + " with " + format_bytes(most)) +
      "; raise it or lower the batch";
  {
    const std::lock_guard<std::mutex> lock(refused_mutex_);
    figures_.refused = message;
  }
  throw BudgetError(message, figures);
}

}  // namespace encore::budget
