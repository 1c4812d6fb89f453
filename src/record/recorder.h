// Watches the ops of one thread and writes them on a tape, while scopes are open.
#pragma once

#include "record/region.h"
#include "record/writer.h"

namespace encore::record {

/// One per thread with an open scope. All its calls come from that thread.
class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  explicit Recorder(std::shared_ptr<store::Residency> residency);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The recorder that watches this thread, or null.
  static Recorder* current();

  /// Gives up a recorder from another thread than its own: it stops when its thread next looks.
  static void abandon(std::shared_ptr<Recorder> self);

  const std::shared_ptr<store::Residency>& residency() const { return residency_; }
  const tape::Tape& tape() const { return residency_->tape(); }
  const std::vector<std::shared_ptr<Region>>& regions() const { return regions_; }
  /// The open region whose function is called again as a whole, with all regions inside it; null if there is none.
  Region* called_again() const { return called_again_; }
  void push(std::shared_ptr<Region> region);
  void pop();

  /// Tells the open regions, and who subscribes to them, outermost first.
  template <class... Args, class... Given>
  void tell(void (Subscriber::*event)(Args...), Given&&... given) {
    for (size_t i = 0; i < subscribers_.size(); ++i) {  // who is told may open and close regions further in
      (subscribers_[i]->*event)(given...);
    }
  }
  /// Whether any of them wants to know which leaves a backward adds to.
  bool wants_leaves() const;

  /// Autograd saves `tensor`.
  std::shared_ptr<Saved> save(const at::Tensor& tensor);
  /// Like save, for a tensor that an opaque region needs again. Null for what no op on this tape can make again.
  /// `as_it_is`: the tensor with the bytes that it has now, whether or not autograd would notice that they changed.
  std::shared_ptr<Saved> save_for_region(const at::Tensor& tensor, bool as_it_is);

  /// Stops watching. The destructor does so too.
  void uninstall();

  /// Rethrows what went wrong inside an observer, where it could not be thrown.
  void rethrow_failure();

  /// Ops on this thread go unrecorded while a Pause lives.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
  };
  static bool is_paused();

  /// Ops on this thread cost nothing while this lives, but for what is opened meanwhile.
  class Unobserved {
   public:
    Unobserved();
    ~Unobserved();
    Unobserved(const Unobserved&) = delete;
    Unobserved& operator=(const Unobserved&) = delete;

   private:
    int users_;
  };

  /// Sets this thread's recorder aside, for code that must run as if no scope were open.
  class Aside {
   public:
    Aside();
    ~Aside();
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;
    /// Leaves the thread as it is: for use on another thread than the one that was changed.
    void forget() { forgotten_ = true; }

   private:
    Recorder* recorder_;
    int paused_;
    bool forgotten_ = false;
  };

 private:
  struct Flight;       // an op between start and end
  class DeferredSave;  // a tensor saved while its op is in flight

  struct Node;           // of a backward, while it runs
  struct KeptConstant {  // what stands behind a tensor from outside that autograd saved
    const tape::Geometry* geometry = nullptr;
    const void* counter = nullptr;  // of the tensor's version
    int64_t version = 0;
    std::weak_ptr<Saved> saved;
  };

  static at::RecordFunctionCallback callback();
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call);
  static void on_end(const at::RecordFunction& call, at::ObserverContext* context);
  static std::unique_ptr<at::ObserverContext> on_node_start(const at::RecordFunction& call);
  static void on_node_end(const at::RecordFunction& call, at::ObserverContext* context);
  void regions_changed();
  void observe_nodes(bool wanted);
  Flight& take_off();
  void start(const at::RecordFunction& call);
  void end(const at::RecordFunction& call);
  void finish(Flight& flight, const at::RecordFunction& call);
  void note_nested_writes(const tape::OpInfo& info, const at::RecordFunction& call);
  void tell_overwritten(tape::OpId id, c10::ArrayRef<tape::PendingWrite> writes,
                        c10::ArrayRef<const c10::IValue> outputs);
  void tell_overwritten_unseen(tape::ValueId before);
  void enter_regions(const tape::PendingOp& pending, c10::ArrayRef<const c10::IValue> args);
  std::shared_ptr<Saved> save_value(tape::ValueId value, const at::Tensor& tensor, int64_t version);
  std::shared_ptr<Saved> keep_constant(tape::ValueId value, const at::Tensor& tensor, int64_t version);
  bool is_recorded(const tape::OpInfo& info) const;
  bool is_right_inside(const Flight& flight) const;
  bool is_settled(const Flight& flight, tape::ValueId value) const;

  const uint64_t serial_;  // of all recorders of the process
  std::shared_ptr<store::Residency> residency_;
  const tape::Tape& tape_;
  Writer writer_;
  std::vector<std::shared_ptr<Region>> regions_;
  std::vector<Subscriber*> subscribers_;          // they, each followed by its own subscriber
  bool observes_nodes_ = false;                   // one of these wants it
  Region* called_again_ = nullptr;                // the outermost of them that is opaque
  std::vector<std::unique_ptr<Flight>> flights_;  // memory for calls in flight, also those looked through
  size_t num_flights_ = 0;                        // how many there are
  Flight* recorded_ = nullptr;                    // the innermost of them that is recorded
  std::exception_ptr failure_;
  Recorder* outer_ = nullptr;
  ska::flat_hash_map<tape::ValueId, KeptConstant> kept_constants_;  // as each was saved last
  bool installed_ = true;
  std::atomic<bool> abandoned_{false};
  std::shared_ptr<Recorder> abandoned_self_;
};

}  // namespace encore::record
