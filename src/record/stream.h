// What happens, told as it happens: the one story that segments, governors and profilers follow.
#pragma once

#include <atomic>

#include "tape/tape.h"

namespace encore::record {

class Recorder;

/// A value that autograd saved and a region dropped.
struct DroppedValue {
  std::weak_ptr<const void> owner;  // with `storage`: which bytes
  int64_t storage = 0;
  int64_t bytes = 0;
  bool freed = false;   // nobody else keeps the bytes in memory
  bool marked = false;  // by checkpoint(tensor)
  std::string op;
};

/// What a region has done with what autograd saved in it, as it is now.
struct RegionFigures {
  std::vector<DroppedValue> dropped;
  int64_t kept_by_policy = 0;
  int64_t kept_by_need = 0;  // can't be recomputed
  int64_t bytes_kept = 0;

  bool saved_anything() const { return !dropped.empty() || kept_by_policy + kept_by_need > 0; }
};

class ObservedRegion {
 public:
  virtual ~ObservedRegion() = default;
  virtual std::string label() const = 0;
  /// False for a scope that only records.
  virtual bool is_checkpoint() const = 0;
  virtual RegionFigures figures() const = 0;
};

/// Values came back.
struct ReplayEvent {
  std::string label;
  int64_t ops = 0;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int64_t own_ns = 0;             // without replays nested in it
  int64_t live_bytes_before = 0;  // this and the next only where the process listens
  int64_t live_bytes_after = 0;
};

/// Who is told. A region has one or none, besides being one itself: told of its thread's ops, nodes and leaves while
/// the region is open, and of what is asked of it and comes back as long as anybody asks. Others listen to the whole
/// process, and are told what stands under "also". Questions that need an answer are asked of regions and governors.
class Subscriber {
 public:
  virtual ~Subscriber() = default;

  /// Between two ops, before the op `next`, with no lock held: regions may be opened and closed here.
  virtual void op_comes(Recorder&, tape::OpId /*next*/) {}
  /// An op runs next. Under the tape's lock, as all up to asked().
  virtual void op_begins(const tape::PendingOp&) {}
  /// It made version `after` out of version `before` by writing to `part` of the storage, through a tensor that
  /// autograd differentiates if it has a history.
  virtual void overwritten(tape::ValueId /*before*/, tape::ValueId /*after*/, const tape::Geometry& /*part*/,
                           bool /*has_history*/) {}
  /// It changed what was made before without tensors over it noticing.
  virtual void overwritten_unseen() {}
  /// It is on the tape, with what autograd saved of it.
  virtual void op_ended(tape::OpId) {}
  /// Backward asks for the value; if it is not in memory it is brought back next.
  virtual void asked(tape::ValueId) {}

  /// A node of a backward runs next on this thread. Nodes nest; each that began ends, whatever is thrown.
  virtual void node_begins(const char* /*name*/) {}
  virtual void node_ended() {}
  /// A backward is about to add to the leaf's gradient.
  virtual void leaf_comes(const at::Tensor&) {}
  /// Both cost something where there are many, so they are told to those only who want them.
  virtual bool wants_nodes() const { return false; }
  virtual bool wants_leaves() const { return false; }

  // Also to those who listen to the process, from any thread; calls may overlap.

  virtual void replayed(const ReplayEvent&) {}
  /// Before anything of a backward runs; and when it has ended, on the thread of its nodes.
  virtual void backward_begins() {}
  virtual void backward_ended() {}

  // To those alone; must not throw.

  virtual void region_opened(const std::shared_ptr<ObservedRegion>&) {}
  virtual void region_closed(const std::shared_ptr<ObservedRegion>&) {}
  /// A tensor was marked; `reason` says why it stays all the same, empty if it does not.
  virtual void marked(const std::string& /*label*/, const std::string& /*reason*/) {}
  /// A checkpoint ran as if it were none.
  virtual void ran_plainly(const std::string& /*label*/, const std::string& /*reason*/) {}
};

/// Listens to the process, until it is taken off.
void listen(std::shared_ptr<Subscriber> listener);
void stop_listening(const std::shared_ptr<Subscriber>& listener);

extern std::atomic<int> g_listeners;
/// For who would have to work out what to tell.
inline bool anyone_listens() {
  return g_listeners.load(std::memory_order_relaxed) > 0;
}

/// As they are now.
std::vector<std::shared_ptr<Subscriber>> listeners();

/// Tells who listens to the process. Costs one atomic read where nobody does.
template <class... Args, class... Given>
void tell_listeners(void (Subscriber::*event)(Args...), const Given&... given) {
  if (anyone_listens()) {
    for (const auto& listener : listeners()) {
      ((*listener).*event)(given...);
    }
  }
}

}  // namespace encore::record
