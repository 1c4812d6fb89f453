// Keeps one training step within the limit: connects who writes its journal, who follows its plan and who makes room.
#pragma once

#include <atomic>
#include <thread>

#include "budget/evictor.h"
#include "budget/routine.h"

namespace encore::budget {

class StepGovernor final : public region::Governor, public std::enable_shared_from_this<StepGovernor> {
 public:
  explicit StepGovernor(StepSetting setting);
  ~StepGovernor() override;

  /// Puts the limit on; the region is open on this thread.
  void start(const std::shared_ptr<region::ReplayRegion>& region);
  /// Takes it off; safe to call twice. What autograd still holds can be asked for afterwards.
  void stop();

  void op_comes(record::Recorder& recorder, tape::OpId next) override;
  void op_begins(const tape::PendingOp& op) override;
  void op_ended(tape::OpId op) override;
  void asked(tape::ValueId value) override;
  void replayed(const record::ReplayEvent& event) override;
  void node_begins(const char* name) override;
  void node_ended() override;
  void leaf_comes(const at::Tensor& leaf) override;
  bool wants_nodes() const override { return !routine_; }
  bool wants_leaves() const override { return true; }

  bool holds_what_came_back() const override { return running_ && itinerary() != nullptr; }
  bool wants(tape::ValueId value) const override;
  void hint(tape::OpId first) override;

  const Journal& journal() const { return writer_.journal(); }
  size_t num_events() const { return writer_.num_events(); }
  /// In a routine step nobody need say in which module it is.
  bool is_routine() const { return routine_.has_value(); }
  /// Moves the journal out, at the end.
  Journal take_journal() { return writer_.take(); }
  StepFigures figures() const;
  /// What the journal takes, and the tensors that autograd saved.
  int64_t book_bytes() const;
  Undo& undo() { return undo_; }
  /// The plan that was followed to the end, or null.
  const std::shared_ptr<const Itinerary>& itinerary() const { return follower_.itinerary(); }

 private:
  void between_events();
  void routine_op_ended(const tape::Tape& tape, tape::OpId op);
  bool is_on_its_thread() const { return std::this_thread::get_id() == thread_; }
  void look_at_process();

  const StepSetting setting_;
  std::weak_ptr<region::ReplayRegion> region_;
  std::atomic<bool> running_{false};  // becomes false under the tape's lock: then nothing here changes any more
  std::thread::id thread_;
  StepFigures figures_;  // as far as they are its own
  Undo undo_;
  Foresight foresight_;
  LastRefusal refused_;
  JournalWriter writer_;
  Follower follower_;
  Evictor evictor_;
  std::optional<Routine>
      routine_;  // from the beginning to the end of such a step: then nothing is written in the journal
};

}  // namespace encore::budget
