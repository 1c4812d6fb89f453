// Events: what happens in a step, and what is to be done between two of them.
#include "budget/step_governor.h"

#include "base/clock.h"
#include "base/spare.h"
#include "record/backward.h"
#include "run/process.h"

namespace encore::budget {
namespace {

using tape::kNone;
using tape::OpId;
using tape::ValueId;

// What an op makes beside something this many times as large is left where it is: the statistics of a batch norm would
// keep its result in memory, since what an op makes is kept and dropped together.
constexpr int64_t kBeside = 64;

/// Who is told of this thread's backward nodes. A step that was ended on another thread could not take itself off here.
struct Watched {
  std::weak_ptr<StepGovernor> governor;
  std::optional<at::CallbackHandle> callback;

  void remove() {
    if (callback.has_value()) {
      at::removeCallback(*std::exchange(callback, std::nullopt));
    }
    governor.reset();
  }
};
thread_local Watched g_watched;

}  // namespace

/// LibTorch tells of every node that backward runs on this thread.
class StepGovernor::NodeObserver {
 public:
  static uint64_t add() {
    return at::addThreadLocalCallback(at::RecordFunctionCallback(&NodeObserver::on_start, &NodeObserver::on_end)
                                          .scopes({at::RecordScope::BACKWARD_FUNCTION}));
  }

 private:
  /// One node, of the governor that was there when it started: down with it comes the depth, whatever is thrown.
  struct Inside final : at::ObserverContext, Spared<Inside> {
    explicit Inside(std::shared_ptr<StepGovernor> its_governor) : governor(its_governor) { ++its_governor->depth_; }
    ~Inside() override { leave(); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

    /// The governor, if it is not over and this was not called before.
    std::shared_ptr<StepGovernor> leave() {
      auto its_governor = std::exchange(governor, {}).lock();
      if (its_governor) {
        --its_governor->depth_;
      }
      return its_governor;
    }
    std::weak_ptr<StepGovernor> governor;
  };

  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
    const auto governor = g_watched.governor.lock();
    if (!governor || !governor->running_) {
      return nullptr;
    }
    record::notice_backward();
    auto inside = std::make_unique<Inside>(governor);
    governor->node_started(call.name());
    return inside;
  }
  static void on_end(const at::RecordFunction& /*call*/, at::ObserverContext* context) {
    if (context == nullptr) {
      return;
    }
    if (const auto governor = static_cast<Inside*>(context)->leave()) {
      governor->node_ended();
    }
  }
};

StepGovernor::StepGovernor(StepSetting setting) : setting_(std::move(setting)), itinerary_(setting_.first) {}

StepGovernor::~StepGovernor() {
  stop();
}

void StepGovernor::start(const std::shared_ptr<ReplayRegion>& region) {
  region_ = region;
  thread_ = std::this_thread::get_id();
  slot_ = run::Meter::slot_of_this_thread();
  running_ = true;
  g_watched.remove();
  g_watched.governor = weak_from_this();
  g_watched.callback = NodeObserver::add();
  look_at_process();
  journal_.start_ns = now_ns();
  meter().begin_births();
  live_at_start_ = meter().live();
  other_now_ = journal_.other_at_start = meter().live(run::Account::kOther);
  meter().take_peaks();
  if (setting_.limit_bytes != run::Meter::kNoLimit) {
    meter().set_limit(setting_.limit_bytes, shared_from_this());
  }
}

void StepGovernor::stop() {
  if (!running_) {
    return;
  }
  look_at_process();
  meter().set_limit(0, nullptr);
  journal_.births = meter().end_births();
  if (thread_ == std::this_thread::get_id()) {
    g_watched.remove();
  }
  const auto region = region_.lock();
  if (!region) {
    running_ = false;
    return;
  }
  const std::lock_guard<RecursiveMutex> lock(region->tape().mutex());
  running_ = false;
  region->residency().unpin_forms();
  region->residency().release_retained();
  for (const auto& [storage, event] : journal_.tracked) {
    const tape::StorageRecord& record = region->tape().storage(storage);
    const auto users = static_cast<int32_t>(record.weak.use_count());
    if (users > 0 && users > region->residency().references(record.current)) {
      journal_.kept.insert(storage);
    }
  }
}

/// An allocation was refused that the step can do without.
void StepGovernor::forget_refusal() {
  const std::lock_guard<std::mutex> lock(refused_mutex_);
  figures_.refused.reset();
}

StepFigures StepGovernor::figures() const {
  const std::lock_guard<std::mutex> lock(refused_mutex_);
  StepFigures figures = figures_;
  figures.limit_was_lifted = limit_was_lifted_;
  figures.plain_peak_bytes = plain_peak_;
  return figures;
}

void StepGovernor::op_starts() {
  if (running_ && depth_ == 0 && std::this_thread::get_id() == thread_) {
    begin();
  }
}

void StepGovernor::recorded(OpId op) {
  if (!running_ || std::this_thread::get_id() != thread_) {
    return;
  }
  if (depth_ > 0) {
    journal_.plannable = false;  // backward is being differentiated: its ops come and go with the nodes
    return;
  }
  const auto region = region_.lock();
  Event event;
  event.op = op;
  const tape::Op& recorded = region->tape().ops()[static_cast<size_t>(op)];
  event.info = recorded.info;
  event.start_ns = recorded.start_ns;
  event.away_ns = std::exchange(away_ns_, 0);
  event.duration_ns = recorded.duration_ns - event.away_ns;
  event.path = extend_path(journal_.signature(), region->tape(), op);
  prices_.move_to(op);
  count_outside_storages();
  finish(std::move(event));
}

void StepGovernor::node_started(const char* name) {
  if (depth_ > 1) {
    return;
  }
  const bool first = journal_.events.empty() || !journal_.events.back().backward;
  node_ = Event();
  node_.backward = true;
  node_.node = name == nullptr ? "" : name;
  begin();
  if (const auto region = region_.lock(); first && region && running_) {
    const std::lock_guard<RecursiveMutex> lock(region->tape().mutex());
    graph_peak_ = plain_peak_ = std::max(plain_peak_.load(), plain_bytes_now());
    look_at_process();
  }
  node_.start_ns = now_ns();
}

void StepGovernor::node_ended() {
  if (depth_ > 0) {
    return;
  }
  const auto region = region_.lock();
  if (!region || !running_) {
    return;
  }
  const std::lock_guard<RecursiveMutex> lock(region->tape().mutex());
  node_.away_ns = std::exchange(away_ns_, 0);
  node_.duration_ns = now_ns() - node_.start_ns - node_.away_ns;
  node_.path = extend_path(journal_.signature(), node_);
  finish(std::move(node_));
}

/// Between two events: temporaries of the one before are gone, so this is the time to do what the plan says.
void StepGovernor::begin() {
  const auto region = region_.lock();
  if (!region || !running_) {
    return;
  }
  tape::RandomLock random;  // to be taken before the tape's
  if (setting_.find && region->tape().has_drawn()) {
    random = tape::lock_random_ops();
  }
  const std::lock_guard<RecursiveMutex> lock(region->tape().mutex());
  if (!journal_.events.empty()) {
    find_released(static_cast<int32_t>(journal_.events.size()) - 1);
    follow(journal_.events.size() - 1);
  }
  foresee(0);
  const run::Meter::Live live = meter().set_moment(static_cast<uint32_t>(journal_.events.size()));
  foresight_.between_events(live.all, depth_ == 0 && !journal_.events.empty() && journal_.events.back().backward);
  other_now_ = live.other;
  away_ns_ = 0;
}

void StepGovernor::finish(Event event) {
  event.duration_ns = std::max<int64_t>(0, event.duration_ns);
  event.other_before = other_now_;
  const run::Meter::Live peaks = meter().take_peaks();
  event.other_peak = peaks.other;
  event.live_peak = peaks.all;
  foresight_.peaked(event.live_peak);
  if (event.op != kNone && track_results(event.op, static_cast<int32_t>(journal_.events.size()))) {
    meter().take_peaks();  // begin anew without what is tracked from here on
  }
  journal_.events.push_back(std::move(event));
}

/// Values that replay could bring back leave the account of what no plan can change. True if there are any.
bool StepGovernor::track_results(OpId op, int32_t event) {
  const size_t tracked_before = journal_.tracked.size();
  const tape::Tape& tape = region_.lock()->tape();
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
    const bool small = value.nbytes < std::max(setting_.smallest_bytes, largest / kBeside);
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
void StepGovernor::find_released(int32_t event) {
  constexpr size_t kNewest = 64;
  constexpr size_t kInTurn = 16;
  const auto region = region_.lock();
  const tape::Tape& tape = region->tape();
  std::vector<ValueId> left_to_us;
  const auto take_if_gone = [&](size_t at) {
    const int32_t index = loose_[at];
    const tape::StorageRecord& record = tape.storage(index);
    const auto users = static_cast<int32_t>(record.weak.use_count());
    if (users > 0 && users > region->residency().references(record.current)) {
      return false;
    }
    if (users > 0) {
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
  if (!itinerary_) {
    std::for_each(left_to_us.begin(), left_to_us.end(), [&](ValueId value) { pack(value); });
  }
}

void StepGovernor::asked(ValueId value) {
  if (!running_) {
    return;
  }
  if (std::this_thread::get_id() == thread_ && depth_ > 0) {
    node_.asked.push_back(value);
  } else {
    journal_.plannable = false;
  }
  prices_.move_to(region_.lock()->tape().value(value).producer);
}

void StepGovernor::replayed(int64_t ops, int64_t start_ns, int64_t duration_ns) {
  if (!running_) {
    return;  // of a graph that outlives its step
  }
  prices_.came_back(ops, region_.lock()->tape().ops().size());
  figures_.ops_replayed += ops;
  ++figures_.replays;
  figures_.replay_ns += duration_ns;
  away_ns_ += duration_ns;
  for (auto inside = journal_.asides.rbegin(); inside != journal_.asides.rend() && inside->start_ns >= start_ns;
       ++inside) {
    away_ns_ -= inside->duration_ns;  // evictions for the replay have counted already
  }
  journal_.asides.push_back({"replay", start_ns, duration_ns});
}

/// What many ops read would be made anew for each of them: the product of which an LSTM's steps each take a part.
bool StepGovernor::wants(ValueId value) const {
  constexpr int32_t kMany = 3;
  if (!running_ || itinerary_) {
    return false;
  }
  const tape::Tape& tape = region_.lock()->tape();
  return tape.value(value).reads >= kMany && tape.storage(tape.value(value).storage).current == value;
}

void StepGovernor::starts(const tape::PendingOp& op) {
  const auto region = region_.lock();
  if (!region || !running_) {
    return;
  }
  op_now_ = op.info;
  if (!op.writes.empty()) {
    undo_.before_writes(region->tape(), op);
  }
  if (!itinerary_ && depth_ == 0 && std::this_thread::get_id() == thread_) {
    foresee(foresight_.bytes_to_come(region->tape(), op));
  }
}

/// From here on allocations must leave so many bytes free.
void StepGovernor::foresee(int64_t bytes_to_come) {
  if (bytes_to_come != to_come_bytes_ && meter().lower_limit(setting_.limit_bytes - bytes_to_come, *this)) {
    to_come_bytes_ = bytes_to_come;
  }
}

void StepGovernor::accumulates_into(const at::Tensor& leaf) {
  if (running_) {
    undo_.accumulates_into(leaf);
  }
}

void StepGovernor::look_at_process() {
  figures_.process_bytes = std::max(figures_.process_bytes, run::process_bytes());
}

/// What was made before this library was loaded is counted from the first op on that reads it.
void StepGovernor::count_outside_storages() {
  const tape::Tape& tape = region_.lock()->tape();
  for (; storages_seen_ < tape.num_storages(); ++storages_seen_) {
    const tape::StorageRecord& record = tape.storage(storages_seen_);
    const c10::Storage storage(record.weak.lock());
    if (storage && tape.value(record.current).source && !run::adopt(storage)) {
      figures_.foreign_bytes += static_cast<int64_t>(storage.nbytes());
    }
  }
}

void StepGovernor::hint(OpId first) {
  const auto region = region_.lock();
  if (region && running_) {
    const std::lock_guard<RecursiveMutex> lock(region->tape().mutex());
    prices_.hint(first, static_cast<OpId>(region->tape().ops().size()));
  }
}

}  // namespace encore::budget
