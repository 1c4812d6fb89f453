// Under pressure: what goes, and what is said where nothing is left.
#include "budget/evictor.h"

#include <map>

#include <ATen/Parallel.h>

#include "base/clock.h"
#include "record/recorder.h"
#include "run/allocator.h"
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

/// Adds the time it lives to what the event that runs is not charged for.
class Stopwatch {
 public:
  Stopwatch(int64_t& total, JournalWriter& writer) : total_(total), writer_(writer), start_(now_ns()) {}
  ~Stopwatch() {
    const int64_t elapsed = now_ns() - start_;
    total_ += elapsed;
    writer_.away(elapsed);
  }
  int64_t start_ns() const { return start_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  int64_t& total_;
  JournalWriter& writer_;
  int64_t start_;
};

}  // namespace

void Evictor::begin(const std::shared_ptr<region::ReplayRegion>& region) {
  region_ = region;
  slot_ = run::Meter::slot_of_this_thread();
  live_at_start_ = meter().live();
  running_ = true;
}

void Evictor::tell(StepFigures& figures) const {
  figures.evictions = evictions_;
  figures.evicted_bytes = evicted_bytes_;
  figures.evict_ns = evict_ns_;
  figures.limit_was_lifted = limit_was_lifted_;
  figures.refused_as = refused_as_;
  figures.plain_peak_bytes = plain_peak_;
}

void Evictor::make_room(int64_t shortage, int64_t nbytes) {
  const auto region = region_.lock();
  if (!region && !running_) {
    return;  // the step ended while this thread was on its way here, and the limit is off
  }
  if (!region) {
    refuse(nullptr, shortage, nbytes);
  }
  std::unique_lock<RecursiveMutex> lock(region->tape().mutex(), std::defer_lock);
  // A worker of a parallel op must not wait for the thread that waits for it, nor who has the generator for a replay
  // that is about to draw. A recorded random op may wait: nobody who has the tape's lock waits for the random one.
  if (at::in_parallel_region() || tape::has_generator()) {
    (void)lock.try_lock();
  } else {
    lock.lock();
  }
  if (!lock.owns_lock()) {
    if (!lift_limit(/*is_locked=*/false)) {
      refuse(nullptr, shortage, nbytes);
    }
  } else if (running_) {  // else the step has ended while this thread waited, and the limit is off
    make_room_locked(*region, shortage, nbytes);
  }
}

void Evictor::make_room_locked(region::ReplayRegion& region, int64_t shortage, int64_t nbytes) {
  JournalWriter& writer = around_.writer;
  const bool is_replay = run::AccountScope::current() == run::Account::kReplayed;
  const auto look_at_peak = [&] {
    looked_at_ = writer.num_events();
    plain_peak_ = std::max(plain_peak_.load(), plain_bytes_now(region) + (is_replay ? 0 : nbytes));
    // Not an optimizer's, which makes its state once.
    graph_peak_ = writer.in_node() || around_.undo.parameter_bytes() == 0 ? plain_peak_.load() : graph_peak_;
  };
  if (region.num_handles() <= std::max(kLittleWork, kWorkPerEvent * (writer.num_events() - looked_at_))) {
    look_at_peak();
  }
  const Stopwatch watch(evict_ns_, writer);
  const record::Recorder::Pause pause;
  const std::vector<ValueId> held = region.residency().held_values();
  const size_t events = writer.num_events() - std::exchange(pressed_at_, writer.num_events());
  // Working prices out would take longer than what is worked on, as far as the last time tells.
  const bool often = prices_.take_work() > std::max(kLittleWork, kWorkPerEvent * events);
  const int64_t limit = around_.setting.limit_bytes;
  batch_ = std::clamp(often ? batch_ * 2 : batch_ / 2, limit / kBatch, limit / kLargestBatch);
  const bool is_planned = around_.follower.itinerary() != nullptr;
  const int64_t freed = evict_cheapest(region, held, is_planned ? shortage : std::max(shortage, batch_));
  if (freed == 0 && region.residency().has_pinned_forms() && !around_.follower.is_packing()) {
    region.residency().unpin_forms();  // numbers can be drawn again
  } else if (freed == 0) {
    look_at_peak();
    if (!lift_limit(/*is_locked=*/true)) {
      refuse(&region, shortage, nbytes);
    }
  }
  writer.add_interlude({"evict", watch.start_ns(), now_ns() - watch.start_ns()});
}

/// Gives up the cheapest of the values until so many bytes are free. Returns how many are. Prices of others rise with
/// each that goes, so the cheapest is priced anew before it does.
int64_t Evictor::evict_cheapest(region::ReplayRegion& region, const std::vector<ValueId>& held, int64_t wanted) {
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
      ++evictions_;
      evicted_bytes_ += bytes;
    }
  }
  return freed;
}

/// What plain training would hold by now: everything that autograd has saved, and what is live besides.
int64_t Evictor::plain_bytes_now(const region::ReplayRegion& region) const {
  return meter().live() - meter().live(run::Account::kReplayed) + region.missing_bytes();
}

void Evictor::look_at_plain_peak() {
  if (const auto region = region_.lock()) {
    graph_peak_ = plain_peak_ = std::max(plain_peak_.load(), plain_bytes_now(*region));
  }
}

void Evictor::foresee(int64_t bytes_to_come) {
  if (bytes_to_come != to_come_bytes_ && meter().lower_limit(around_.setting.limit_bytes - bytes_to_come, *this)) {
    to_come_bytes_ = bytes_to_come;
  }
}

/// A fraction of what a step needs can't refuse a step of which that is not known. One that is as such steps were, and
/// that no plan fits, would run without a limit each time.
bool Evictor::lift_limit(bool is_locked) {
  using AtTheEnd = StepSetting::AtTheEnd;
  const AtTheEnd at_the_end = around_.setting.at_the_end;
  const bool lifts = at_the_end == AtTheEnd::kLearn ||
                     (at_the_end == AtTheEnd::kLearnNewKinds && is_locked && !around_.follower.itinerary() &&
                      (around_.writer.num_events() == 0 || !unplanned_so_far().model));
  if (lifts) {
    meter().set_limit(0, nullptr);
    limit_was_lifted_ = true;
  }
  return lifts;
}

bool Evictor::is_as_expected() const {
  const auto& model = around_.setting.unplanned.model;
  const size_t events = around_.writer.num_events();
  return model && events <= model->path.size() &&
         (events == 0 || model->path[events - 1] == around_.writer.journal().signature());
}

/// The kind of step that this one may be, if no plan fits that.
StepSetting::Unplanned Evictor::unplanned_so_far() const {
  const StepSetting& setting = around_.setting;
  const size_t events = around_.writer.num_events();
  if (is_as_expected()) {
    return setting.unplanned;
  }
  if (events == 0 || setting.at_the_end == StepSetting::AtTheEnd::kRefuse || !setting.find_unplanned) {
    return {};
  }
  return setting.find_unplanned(events - 1, around_.writer.journal().signature());
}

/// The budget to state next, as far as is known: what plain training holds at most up to here, or will hold later.
int64_t Evictor::least_to_state(const region::ReplayRegion& region, int64_t nbytes) const {
  const bool is_replay = run::AccountScope::current() == run::Account::kReplayed;
  const int64_t copied_bytes = region.residency().copied_bytes();  // of what the step has overwritten
  const int64_t so_far = plain_peak_ - copied_bytes;
  // The next step like this one begins with the optimizer's state, which this one did not.
  const int64_t next_step = graph_peak_ - copied_bytes + around_.foresight.state_bytes();
  // When backward has ended, with new gradients in the place of those that zero_grad() let go.
  const Journal& journal = around_.writer.journal();
  int64_t least_other = journal.other_at_start;
  for (const Event& event : journal.events) {
    least_other = std::min(least_other, event.other_before);
  }
  const int64_t gradients = live_at_start_ - (journal.other_at_start - least_other) + around_.undo.new_gradient_bytes();
  const int64_t in_optimizer = around_.foresight.needed_bytes(meter().live(), is_replay ? 0 : nbytes);
  return std::max({so_far, next_step, gradients, in_optimizer, around_.setting.unplanned.least_bytes});
}

void Evictor::refuse(const region::ReplayRegion* region, int64_t shortage, int64_t nbytes) {
  Refusal refusal;
  BudgetError::Figures& figures = refusal.figures;
  figures.limit_bytes = around_.setting.limit_bytes;
  figures.needed_bytes = figures.limit_bytes + shortage;
  figures.least_bytes = plain_peak_;
  figures.other_threads_bytes = meter().live_of_other_threads(slot_);
  figures.parameters_written = around_.undo.parameters_written();
  if (region != nullptr) {
    figures.op = around_.writer.running();
    figures.least_bytes = least_to_state(*region, nbytes);
    refusal.held = text_of_held(*region);
    refusal.left_plan_at = around_.follower.left_at();
  }
  // As far as it came, the step is as it was last time: a plan for that one would do.
  if (const auto unplanned = region != nullptr ? unplanned_so_far() : StepSetting::Unplanned{}; unplanned.model) {
    figures.least_bytes = unplanned.least_bytes;
    figures.least_is_known = true;
    refusal.unplanned = unplanned.text;
    refused_as_ = unplanned.model->signature();
  }
  refusal.to_come_bytes = to_come_bytes_;
  if (refusal.to_come_bytes > 0) {
    figures.least_bytes = std::max(figures.least_bytes, figures.needed_bytes + Foresight::kScalarsBytes);
  } else if (figures.least_bytes <= figures.limit_bytes) {
    figures.least_bytes = figures.needed_bytes;
  }
  refusal.nbytes = nbytes;
  refusal.shortage_bytes = shortage;
  refusal.put_back = around_.undo.text();
  const BudgetError error(text_of(refusal), figures);
  around_.refused.keep(error, region != nullptr ? around_.writer.num_events() : 0);
  throw error;
}

/// What nobody can give up because the user's own code holds it, if that is much: the next thing to be mended.
std::string Evictor::text_of_held(const region::ReplayRegion& region) const {
  constexpr int64_t kMuch = 10;
  const Journal& journal = around_.writer.journal();
  std::map<std::string, int64_t> by_op;
  int64_t all_bytes = 0;
  for (const auto& [storage, event] : journal.tracked) {
    const tape::StorageRecord& record = region.tape().storage(storage);
    if (is_held_outside(region.residency(), record)) {
      const int64_t nbytes = region.tape().value(record.current).nbytes;
      by_op[std::string(journal.events[static_cast<size_t>(event)].info->name)] += nbytes;
      all_bytes += nbytes;
    }
  }
  const bool is_much = all_bytes > 0 && all_bytes >= (around_.setting.limit_bytes - live_at_start_) / kMuch;
  return is_much ? budget::text_of_held(by_op) : "";
}

}  // namespace encore::budget
