// Events, the storages that they make, and who holds these.
#include "budget/journal_writer.h"

#include "base/clock.h"
#include "budget/step_setting.h"
#include "run/allocator.h"

namespace encore::budget {
namespace {

using tape::kNone;
using tape::OpId;
using tape::ValueId;

// What an op makes beside something this many times as large is left where it is: the statistics of a batch norm would
// keep its result in memory, since what an op makes is kept and dropped together.
constexpr int64_t kBeside = 64;

}  // namespace

bool is_held_outside(const store::Residency& residency, const tape::StorageRecord& record) {
  const auto users = static_cast<int32_t>(record.weak.use_count());
  return users > 0 && users > residency.references(record.current);
}

void JournalWriter::begin() {
  journal_.start_ns = now_ns();
  meter().begin_births();
  other_now_ = journal_.other_at_start = meter().live(run::Account::kOther);
  meter().take_peaks();
}

void JournalWriter::end() {
  journal_.births = meter().end_births();
}

void JournalWriter::note_kept(const store::Residency& residency) {
  for (const auto& [storage, event] : journal_.tracked) {
    if (is_held_outside(residency, residency.tape().storage(storage))) {
      journal_.kept.insert(storage);
    }
    // To the next step it is what rests, and may go while that runs.
    if (const c10::Storage outlives{residency.tape().storage(storage).weak.lock()}) {
      run::untrack(outlives);
    }
  }
}

void JournalWriter::between_events(const run::Meter::Live& live) {
  other_now_ = live.other;
  away_ns_ = 0;
}

void JournalWriter::op_ended(const tape::Tape& tape, OpId op) {
  Event event;
  event.op = op;
  const tape::Op& recorded = tape.ops()[static_cast<size_t>(op)];
  event.info = recorded.info;
  event.start_ns = recorded.start_ns;
  event.away_ns = std::exchange(away_ns_, 0);
  event.duration_ns = recorded.duration_ns - event.away_ns;
  event.path = extend_path(journal_.signature(), tape, op);
  count_outside_storages(tape);
  finish(std::move(event), tape);
}

bool JournalWriter::node_begins(const char* name) {
  if (depth_++ > 0) {
    return false;
  }
  node_ = Event();
  node_.backward = true;
  node_.node = name == nullptr ? "" : name;
  node_runs();
  return true;
}

void JournalWriter::node_runs() {
  node_.start_ns = now_ns();
}

bool JournalWriter::node_ended(const tape::Tape& tape) {
  if (--depth_ > 0) {
    return false;
  }
  node_.away_ns = std::exchange(away_ns_, 0);
  node_.duration_ns = now_ns() - node_.start_ns - node_.away_ns;
  node_.path = extend_path(journal_.signature(), node_);
  finish(std::move(node_), tape);
  return true;
}

void JournalWriter::finish(Event event, const tape::Tape& tape) {
  event.duration_ns = std::max<int64_t>(0, event.duration_ns);
  event.other_before = other_now_;
  const run::Meter::Live peaks = meter().take_peaks();
  event.other_peak = peaks.other;
  event.live_peak = peaks.all;
  if (event.op != kNone && track_results(tape, event.op, static_cast<int32_t>(journal_.events.size()))) {
    meter().take_peaks();  // begin anew without what is tracked from here on
  }
  journal_.events.push_back(std::move(event));
}

/// Values that replay could bring back leave the account of what no plan can change. True if there are any.
bool JournalWriter::track_results(const tape::Tape& tape, OpId op, int32_t event) {
  const size_t tracked_before = journal_.tracked.size();
  const c10::ArrayRef<tape::Output> outputs = tape.ops()[static_cast<size_t>(op)].outputs;
  int64_t largest = 0;
  for (const tape::Output& output : outputs) {
    largest = std::max(largest, output.value == kNone ? 0 : tape.value(output.value).nbytes);
  }
  for (const tape::Output& output : outputs) {
    if (output.value == kNone) {
      continue;
    }
    const tape::Value& value = tape.value(output.value);
    const bool may_come_back = value.producer == op && (!value.is_constant() || value.uninitialised) && !value.source;
    const bool small = value.nbytes < std::max(smallest_bytes_, largest / kBeside);
    if (!may_come_back || small || journal_.tracked.count(value.storage) > 0) {
      continue;
    }
    const c10::Storage storage(tape.storage(value.storage).weak.lock());
    if (storage && run::track(storage)) {
      journal_.tracked.emplace(value.storage, event);
      loose_.push_back(value.storage);
    }
  }
  return journal_.tracked.size() > tracked_before;
}

/// Looks at the newest storages, of which most go soon, and at some of the rest in turn: a list of outputs that the
/// user keeps would otherwise cost its length at every event.
std::vector<ValueId> JournalWriter::find_released(const store::Residency& residency, int32_t event) {
  constexpr size_t kNewest = 64;
  constexpr size_t kInTurn = 16;
  std::vector<ValueId> left_to_us;
  const auto take_if_gone = [&](size_t at) {
    const int32_t index = loose_[at];
    const tape::StorageRecord& record = residency.tape().storage(index);
    if (is_held_outside(residency, record)) {
      return false;
    }
    if (!record.weak.expired()) {
      left_to_us.push_back(record.current);
    }
    journal_.released.emplace(index, event);
    loose_.erase(loose_.begin() + static_cast<int64_t>(at));
    return true;
  };
  for (size_t i = 0; i < kNewest && i < loose_.size();) {
    i += take_if_gone(loose_.size() - 1 - i) ? 0 : 1;
  }
  for (size_t i = 0; i < kInTurn && loose_.size() > kNewest; ++i) {
    cursor_ = cursor_ < loose_.size() - kNewest ? cursor_ : 0;
    cursor_ += take_if_gone(cursor_) ? 0 : 1;
  }
  return left_to_us;
}

void JournalWriter::replayed(const Interlude& replay) {
  away_ns_ += replay.duration_ns;
  for (auto inside = journal_.interludes.rbegin();
       inside != journal_.interludes.rend() && inside->start_ns >= replay.start_ns; ++inside) {
    away_ns_ -= inside->duration_ns;
  }
  add_interlude(replay);
}

std::string JournalWriter::running() const {
  return in_node() ? node_.node : op_now_ != nullptr ? std::string(op_now_->name) : "";
}

void JournalWriter::count_outside_storages(const tape::Tape& tape) {
  for (; storages_seen_ < tape.num_storages(); ++storages_seen_) {
    const tape::StorageRecord& record = tape.storage(storages_seen_);
    if (!tape.value(record.current).source) {
      continue;
    }
    const c10::Storage storage(record.weak.lock());
    if (storage && !run::adopt(storage)) {
      foreign_bytes_ += static_cast<int64_t>(storage.nbytes());
    }
  }
}

}  // namespace encore::budget
