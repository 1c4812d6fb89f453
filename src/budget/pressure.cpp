// An allocation that would pass the limit: making room for it, or refusing it.
#include <map>

#include <ATen/Parallel.h>

#include <encore/bytes.h>
#include <encore/error.h>

#include "base/clock.h"
#include "budget/refusals.h"
#include "budget/step_governor.h"
#include "record/recorder.h"
#include "tape/random.h"

namespace encore::budget {
namespace {

using tape::kNone;
using tape::ValueId;

// Under pressure at least this part of the limit is freed at a time, so that prices are not worked out at every op; up
// to the other where so many ops are looked at for them that it would take longer than the step itself.
constexpr int64_t kBatch = 128;
constexpr int64_t kLargestBatch = 16;
constexpr size_t kLittleWork = 4096;
constexpr size_t kWorkPerEvent = 32;

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
  const auto give_up = [&](bool is_locked) {
    if (!lift_limit(is_locked)) {
      refuse(shortage, nbytes, is_locked);
    }
  };
  std::unique_lock<RecursiveMutex> lock(region->tape().mutex(), std::defer_lock);
  // A worker of a parallel op must not wait for the thread that waits for it, nor who has the generator for a replay
  // that is about to draw. A recorded random op may wait: nobody who has the tape's lock waits for the random one.
  if (at::in_parallel_region() || tape::has_generator()) {
    (void)lock.try_lock();
  } else {
    lock.lock();
  }
  if (!lock.owns_lock()) {
    give_up(/*is_locked=*/false);
    return;
  }
  if (!running_) {
    return;  // ended while this thread waited, and the limit is off
  }
  const bool is_replay = run::AccountScope::current() == run::Account::kReplayed;
  const auto look_at_plain_peak = [&] {
    looked_at_ = journal_.events.size();
    plain_peak_ = std::max(plain_peak_.load(), plain_bytes_now() + (is_replay ? 0 : nbytes));
    // Not an optimizer's, which makes its state once.
    graph_peak_ = depth_ > 0 || undo_.parameter_bytes() == 0 ? plain_peak_.load() : graph_peak_;
  };
  if (region->num_handles() <= std::max(kLittleWork, kWorkPerEvent * (journal_.events.size() - looked_at_))) {
    look_at_plain_peak();
  }
  const Stopwatch watch(figures_.evict_ns, away_ns_);
  const record::Recorder::Pause pause;
  const std::vector<ValueId> held = region->residency().held_values();
  const size_t events = journal_.events.size() - std::exchange(pressed_at_, journal_.events.size());
  // Working prices out would take longer than what is worked on, as far as the last time tells.
  const bool often = prices_.take_work() > std::max(kLittleWork, kWorkPerEvent * events);
  batch_ =
      std::clamp(often ? batch_ * 2 : batch_ / 2, setting_.limit_bytes / kBatch, setting_.limit_bytes / kLargestBatch);
  const int64_t freed = evict_cheapest(*region, held, itinerary_ ? shortage : std::max(shortage, batch_));
  if (freed == 0 && region->residency().has_pinned_forms() && !packing_) {
    region->residency().unpin_forms();  // numbers can be drawn again
  } else if (freed == 0) {
    look_at_plain_peak();
    give_up(/*is_locked=*/true);
  }
  journal_.asides.push_back({"evict", watch.start_ns(), now_ns() - watch.start_ns()});
}

/// Gives up the cheapest of the values until so many bytes are free. Returns how many are. Prices of others rise with
/// each that goes, so the cheapest is priced anew before it does.
int64_t StepGovernor::evict_cheapest(ReplayRegion& region, const std::vector<ValueId>& held, int64_t wanted) {
  using Candidate = std::pair<double, ValueId>;
  std::vector<Candidate> candidates;  // a heap, the cheapest on top
  candidates.reserve(held.size());
  for (const ValueId value : held) {
    if (region.tape().value(value).nbytes > 0) {
      candidates.emplace_back(prices_.of(region.residency(), value), value);
    }
  }
  std::make_heap(candidates.begin(), candidates.end(), std::greater<>());
  int64_t freed = 0;
  while (freed < wanted && !candidates.empty()) {
    std::pop_heap(candidates.begin(), candidates.end(), std::greater<>());
    const auto [price, value] = candidates.back();
    candidates.pop_back();
    if (!region.residency().can_evict(value)) {
      continue;
    }
    const double now = prices_.anew(region.residency(), value);
    if (now > price && !candidates.empty() && now > candidates.front().first) {
      candidates.emplace_back(now, value);
      std::push_heap(candidates.begin(), candidates.end(), std::greater<>());
      continue;
    }
    const int64_t bytes = region.tape().value(value).nbytes;
    if (region.residency().evict(value)) {
      freed += bytes;
      ++figures_.evictions;
      figures_.evicted_bytes += bytes;
    }
  }
  return freed;
}

/// What plain training would hold by now: everything that autograd has saved, and what is live besides.
int64_t StepGovernor::plain_bytes_now() const {
  const auto region = region_.lock();
  return meter().live() - meter().live(run::Account::kReplayed) + region->missing_bytes();
}

/// A fraction of what a step needs can't refuse a step of which that is not known.
bool StepGovernor::lift_limit(bool is_locked) {
  using AtTheEnd = StepSetting::AtTheEnd;
  const bool lifts = setting_.at_the_end == AtTheEnd::kLearn ||
                     (setting_.at_the_end == AtTheEnd::kLearnNewKinds && is_locked && !itinerary_);
  if (lifts) {
    meter().set_limit(0, nullptr);
    limit_was_lifted_ = true;
  }
  return lifts;
}

bool StepGovernor::is_as_expected() const {
  const auto& model = setting_.unplanned.model;
  const size_t events = journal_.events.size();
  return model && events <= model->path.size() && (events == 0 || model->path[events - 1] == journal_.signature());
}

/// The budget to state next, as far as is known: what plain training holds at most up to here, or will hold later.
int64_t StepGovernor::least_to_state(int64_t nbytes) const {
  const bool is_replay = run::AccountScope::current() == run::Account::kReplayed;
  const int64_t copied_bytes = region_.lock()->residency().copied_bytes();  // of what the step has overwritten
  const int64_t so_far = plain_peak_ - copied_bytes;
  // The next step like this one begins with the optimizer's state, which this one did not.
  const int64_t next_step = graph_peak_ - copied_bytes + foresight_.state_bytes();
  // When backward has ended, with new gradients in the place of those that zero_grad() let go.
  int64_t least_other = journal_.other_at_start;
  for (const Event& event : journal_.events) {
    least_other = std::min(least_other, event.other_before);
  }
  const int64_t gradients = live_at_start_ - (journal_.other_at_start - least_other) + undo_.new_gradient_bytes();
  const int64_t in_optimizer = foresight_.needed_bytes(meter().live(), is_replay ? 0 : nbytes);
  return std::max({so_far, next_step, gradients, in_optimizer, setting_.unplanned.least_bytes});
}

/// The op or node that runs now; the one whose result a replay makes again is told by the node that asked for it.
std::string StepGovernor::running_op() const {
  return depth_ > 0 ? node_.node : op_now_ != nullptr ? std::string(op_now_->name) : "";
}

void StepGovernor::refuse(int64_t shortage, int64_t nbytes, bool is_locked) {
  BudgetError::Figures figures;
  figures.limit_bytes = setting_.limit_bytes;
  figures.needed_bytes = setting_.limit_bytes + shortage;
  figures.least_bytes = plain_peak_;
  figures.other_threads_bytes = meter().live_of_other_threads(slot_);
  figures.parameters_written = undo_.parameters_written();
  if (is_locked) {
    figures.op = running_op();
    figures.least_bytes = least_to_state(nbytes);
  }
  // As far as it came, the step is as it was last time: a plan for that one would do.
  const bool is_as_last = is_locked && is_as_expected();
  if (is_as_last) {
    figures.least_bytes = setting_.unplanned.least_bytes;
    figures.least_is_known = true;
  }
  if (to_come_bytes_ > 0) {
    figures.least_bytes = std::max(figures.least_bytes, figures.needed_bytes + Foresight::kScalarsBytes);
  } else if (figures.least_bytes <= figures.limit_bytes) {
    figures.least_bytes = figures.needed_bytes;
  }
  BudgetError error(text_of_refusal(figures, shortage, nbytes, is_locked, is_as_last), figures);
  {
    const std::lock_guard<std::mutex> lock(refused_mutex_);
    figures_.refused = error;
    figures_.refused_at = is_locked ? journal_.events.size() : 0;
  }
  throw error;
}

/// What nobody can give up because the user's own code holds it, if that is much: the next thing to be mended.
std::string StepGovernor::text_of_held() const {
  constexpr int64_t kMuch = 10;
  constexpr size_t kMostOps = 3;
  const auto region = region_.lock();
  std::map<std::string, int64_t> by_op;
  int64_t all_bytes = 0;
  for (const auto& [storage, event] : journal_.tracked) {
    const tape::StorageRecord& record = region->tape().storage(storage);
    const auto users = static_cast<int32_t>(record.weak.use_count());
    if (users > 0 && users > region->residency().references(record.current)) {
      const int64_t nbytes = region->tape().value(record.current).nbytes;
      by_op[std::string(journal_.events[static_cast<size_t>(event)].info->name)] += nbytes;
      all_bytes += nbytes;
    }
  }
  if (all_bytes < (setting_.limit_bytes - live_at_start_) / kMuch) {
    return "";
  }
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [op, nbytes] : by_op) {
    sorted.emplace_back(nbytes, op);
  }
  std::sort(sorted.rbegin(), sorted.rend());
  std::string text = "; your own code holds " + format_bytes(all_bytes) + " of it (";
  for (size_t i = 0; i < std::min(sorted.size(), kMostOps); ++i) {
    text += (i > 0 ? ", " : "") + format_bytes(sorted[i].first) + " made by " + sorted[i].second;
  }
  return text + "), which could be given up if variables, lists and long expressions let go of it";
}

std::string StepGovernor::text_of_refusal(const BudgetError::Figures& figures, int64_t shortage, int64_t nbytes,
                                          bool is_locked, bool is_as_last) const {
  std::string message = "budget: an allocation of " + format_bytes(nbytes) +
                        (figures.op.empty() ? "" : " in " + figures.op) + " needs " +
                        exact_bytes(figures.needed_bytes) + " in all, the budget is " +
                        exact_bytes(figures.limit_bytes) + ", and nothing is left that could be given up";
  if (to_come_bytes_ > 0) {
    message += "; of that " + format_bytes(to_come_bytes_) +
               " are still to come: what an optimizer makes for one parameter it makes for all";
  }
  if (is_as_last) {
    message += "; " + setting_.unplanned.text;
  }
  if (is_locked) {
    message += text_of_held();
  }
  if (is_locked && figures_.left_plan) {
    message += "; the step had left its plan at " + figures_.left_at;
  }
  if (figures.other_threads_bytes > shortage / 2) {
    message += "; other threads (a data loader's, for example) hold " + format_bytes(figures.other_threads_bytes);
  }
  return message + "; up to here it takes " + exact_bytes(figures.least_bytes) +
         " without a limit: raise the budget to that, or lower the batch. When the step has ended, " + undo_.text();
}

}  // namespace encore::budget
