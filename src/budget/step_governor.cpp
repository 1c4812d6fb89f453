// What happens in a step, passed on to who has to do with it.
#include "budget/step_governor.h"

#include "run/process.h"

namespace encore::budget {

using tape::OpId;
using tape::ValueId;

StepGovernor::StepGovernor(StepSetting setting)
    : setting_(std::move(setting)),
      undo_(setting_.leaves_no_trace),
      foresight_(undo_),
      writer_(setting_.smallest_bytes),
      follower_(setting_, writer_, refused_),
      evictor_({setting_, writer_, follower_, undo_, foresight_, refused_}) {
  if (setting_.is_routine) {
    routine_.emplace(*setting_.first->model);
  }
}

StepGovernor::~StepGovernor() {
  stop();
}

void StepGovernor::start(const std::shared_ptr<region::ReplayRegion>& region) {
  region_ = region;
  thread_ = std::this_thread::get_id();
  running_ = true;
  look_at_process();
  writer_.begin();
  evictor_.begin(region);
  if (setting_.limit_bytes != run::Meter::kNoLimit) {
    meter().set_limit(setting_.limit_bytes, std::shared_ptr<run::Limiter>(shared_from_this(), &evictor_));
  }
}

void StepGovernor::stop() {
  if (!running_) {
    return;
  }
  look_at_process();
  meter().set_limit(0, nullptr);
  writer_.end();
  const auto region = region_.lock();
  if (!region) {
    running_ = false;
    return;
  }
  const std::lock_guard<RecursiveMutex> lock(region->tape().mutex());
  running_ = false;
  if (routine_ && itinerary() && !routine_->is_whole()) {
    follower_.leave("its backward, or its end");
  }
  evictor_.end();
  region->residency().unpin_forms();
  region->residency().release_retained();
  writer_.note_kept(region->residency());
}

StepFigures StepGovernor::figures() const {
  StepFigures figures = figures_;
  evictor_.tell(figures);
  std::tie(figures.refused, figures.refused_at) = refused_.get();
  figures.foreign_bytes = writer_.foreign_bytes();
  if (routine_) {
    figures.routine = routine_->signature();
  }
  figures.left_plan = follower_.left_at().has_value();
  figures.left_at = follower_.left_at().value_or("");
  return figures;
}

int64_t StepGovernor::book_bytes() const {
  const auto region = region_.lock();
  return static_cast<int64_t>(journal().events.capacity() * sizeof(Event)) +
         (region ? static_cast<int64_t>(region->num_handles()) * region::ReplayRegion::kHandleBytes : 0);
}

/// Between two events temporaries of the one before are gone, so this is the time to do what the plan says.
void StepGovernor::between_events() {
  const auto region = region_.lock();
  if (!region || !running_) {
    return;
  }
  tape::RandomLock random;  // to be taken before the tape's
  if (setting_.find && region->tape().has_drawn()) {
    random = tape::lock_random_ops();
  }
  const std::lock_guard<RecursiveMutex> lock(region->tape().mutex());
  const std::vector<Event>& events = journal().events;
  if (!events.empty()) {
    const std::vector<ValueId> released =
        writer_.find_released(region->residency(), static_cast<int32_t>(events.size()) - 1);
    if (!itinerary()) {
      std::for_each(released.begin(), released.end(), [&](ValueId value) { follower_.pack(*region, value); });
    }
    follower_.follow(*region, events.size() - 1);
  }
  evictor_.foresee(0);
  const run::Meter::Live live = meter().set_moment(static_cast<uint32_t>(events.size()));
  foresight_.between_events(live.all, !writer_.in_node() && !events.empty() && events.back().backward);
  writer_.between_events(live);
}

void StepGovernor::op_comes(record::Recorder& recorder, OpId /*next*/) {
  const bool is_innermost = !routine_ && recorder.regions().back()->subscriber() == this;
  if (is_innermost && running_ && !writer_.in_node() && is_on_its_thread()) {
    between_events();
  }
}

void StepGovernor::op_begins(const tape::PendingOp& op) {
  const auto region = region_.lock();
  if (!region || !running_) {
    return;
  }
  writer_.op_begins(*op.info);
  if (!op.writes.empty()) {
    undo_.before_writes(region->tape(), op);
  }
  if (!itinerary() && !routine_ && !writer_.in_node() && is_on_its_thread()) {
    evictor_.foresee(foresight_.bytes_to_come(region->tape(), op));
  }
}

void StepGovernor::op_ended(OpId op) {
  if (!running_ || !is_on_its_thread()) {
    return;
  }
  if (writer_.in_node()) {
    writer_.is_not_plannable();  // backward is being differentiated: its ops come and go with the nodes
    return;
  }
  evictor_.prices().move_to(op);
  if (routine_) {
    routine_op_ended(region_.lock()->tape(), op);
    return;
  }
  writer_.op_ended(region_.lock()->tape(), op);
  foresight_.peaked(journal().events.back().live_peak);
}

void StepGovernor::routine_op_ended(const tape::Tape& tape, OpId op) {
  writer_.pass();
  writer_.count_outside_storages(tape);
  if (!routine_->op_ended(tape, op) && itinerary()) {
    follower_.leave(tape.describe_op(op));
  }
}

void StepGovernor::node_begins(const char* name) {
  const auto region = region_.lock();
  const auto is_outermost = [&] {
    const std::lock_guard<RecursiveMutex> lock(region->tape().mutex());
    return writer_.node_begins(name);
  };
  if (!region || !is_outermost() || !running_) {
    return;
  }
  const bool first = journal().events.empty() || !journal().events.back().backward;
  between_events();
  if (first) {
    const std::lock_guard<RecursiveMutex> lock(region->tape().mutex());
    evictor_.look_at_plain_peak();
    look_at_process();
  }
  writer_.node_runs();
}

void StepGovernor::node_ended() {
  const auto region = region_.lock();
  if (!region) {
    return;
  }
  const std::lock_guard<RecursiveMutex> lock(region->tape().mutex());
  if (running_ && writer_.node_ended(region->tape())) {
    foresight_.peaked(journal().events.back().live_peak);
  }
}

void StepGovernor::asked(ValueId value) {
  if (!running_) {
    return;
  }
  if (routine_) {
    routine_->asked(value);
  } else if (is_on_its_thread() && writer_.in_node()) {
    writer_.asked(value);
  } else {
    writer_.is_not_plannable();
  }
  evictor_.prices().move_to(region_.lock()->tape().value(value).producer);
}

void StepGovernor::replayed(const record::ReplayEvent& event) {
  if (!running_) {
    return;  // of a graph that outlives its step
  }
  evictor_.prices().came_back(event.ops, region_.lock()->tape().ops().size());
  figures_.ops_replayed += event.ops;
  ++figures_.replays;
  figures_.replay_ns += event.duration_ns;
  writer_.replayed({"replay", event.start_ns, event.duration_ns});
}

/// What many ops read would be made anew for each of them: the product of which an LSTM's steps each take a part.
bool StepGovernor::wants(ValueId value) const {
  constexpr int32_t kMany = 3;
  if (!running_ || itinerary()) {
    return false;
  }
  const tape::Tape& tape = region_.lock()->tape();
  return tape.value(value).reads >= kMany && tape.storage(tape.value(value).storage).current == value;
}

void StepGovernor::leaf_comes(const at::Tensor& leaf) {
  if (running_) {
    undo_.accumulates_into(leaf);
  }
}

void StepGovernor::look_at_process() {
  figures_.process_bytes = std::max(figures_.process_bytes, run::process_bytes());
}

void StepGovernor::hint(OpId first) {
  const auto region = region_.lock();
  if (region && running_) {
    const std::lock_guard<RecursiveMutex> lock(region->tape().mutex());
    evictor_.prices().hint(first, static_cast<OpId>(region->tape().ops().size()));
  }
}

}  // namespace encore::budget
