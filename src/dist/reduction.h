// Gradients become means over all ranks while backward runs.
#pragma once

#include <deque>
#include <thread>

#include <torch/csrc/autograd/edge.h>

#include "dist/failure.h"
#include "dist/layout.h"

namespace encore::dist {

/// One model's reduction. Where a process has several, hooks never wait for a slot and backwards are completed in the
/// order in which the reductions were made: two ranks that wait for different models would wait for ever. The
/// collectives of a reduced backward are, on every rank: each bucket once, in order; the verdict; if nobody failed,
/// updated parameters and buffers. A rank that fails goes through those that are left up to the verdict.
class Reduction {
 public:
  /// Puts a hook behind each parameter's gradient.
  Reduction(Layout layout, std::shared_ptr<RankGroup::Impl> group, const DataParallelOptions& options);
  ~Reduction();
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  /// All of the process, in the order in which they were made.
  static std::vector<Reduction*> all();

  const Layout& layout() const { return layout_; }
  Channel& channel() { return channel_; }
  int64_t slot_bytes() const { return slot_bytes_ * in_flight_limit_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }

  /// A step that all ranks have begun. Its slots are there until it ends.
  void begin_step(bool reduces);
  /// `failure`: of this rank; none if the step went well. Tells the others where they have not been told. Gives true if
  /// the step went well everywhere, as far as is known here.
  bool end_step(Failure failure) noexcept;
  void make_slots();
  void free_slots();
  /// A failure of the step before that the others do not know of yet; told when the next step begins.
  Failure take_untold();
  /// Of a failure in this step after its verdict.
  void all_know() { known_ = true; }

  void suspend(int by) { suspended_ += by; }
  bool suspended() const { return suspended_ > 0; }

  /// Everybody gets `from`'s parameters and buffers.
  void broadcast_all(int from);

  /// From now on buckets are reduced to their owners, which alone keep gradients. `update`, if there is one, is called
  /// for a parameter whose gradient has been summed; the parameters are sent to everybody when backward ends.
  void shard(std::vector<int> owners, std::function<void(size_t parameter)> update);
  /// Sends each bucket's parameters from its owner to everybody.
  void send_parameters();
  /// Whether this rank has the summed gradient of the parameter.
  bool owns(size_t parameter) const;
  void drop_gradients();
  int64_t reduced_backwards() const { return reduced_backwards_; }

 private:
  class Hook;
  /// Held by the backward that it belongs to, which calls no callback if it throws: then this goes without an end.
  struct Run {
    explicit Run(Reduction& of) : reduction(of) {}
    ~Run() {
      if (!over) {
        reduction.aborted();
      }
    }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    Reduction& reduction;
    std::thread::id thread = std::this_thread::get_id();
    bool over = false;
  };
  struct InFlight {
    size_t bucket;
    int slot;           // -1: `target`
    at::Tensor target;  // of a bucket of one parameter
    Pending pending;
  };

  void on_gradient(size_t parameter);
  void begin_run();
  void enlist(bool here);
  static void complete_all();
  void complete(Run& run);
  /// Whether a backward of this thread is under way whose end has not been told.
  std::shared_ptr<Run> open_run() const;
  void aborted() noexcept;
  void launch_ready(bool may_wait);
  bool has_free_slot();
  void launch(size_t bucket);
  void launch_alone(size_t bucket);
  void forget_dropped(size_t parameter);
  Pending reduce(size_t bucket, void* data, std::shared_ptr<const void> memory);
  int free_slot();
  void finish_first();
  void finish_parameter(size_t parameter, const at::Tensor& reduced, bool own);
  void pass_verdict(Failure mine);
  void apply_late();
  void drain(const Failure& failure) noexcept;
  void reset();
  at::Tensor place_in(void* data, const Parameter& parameter) const;
  static void require_reducible(const Parameter& parameter, const at::Tensor& grad);

  Layout layout_;
  Channel channel_;
  int in_flight_limit_;
  int64_t slot_bytes_;
  int64_t scratch_bytes_;
  bool sync_buffers_;
  at::Tensor scale_;  // one over the number of ranks
  std::vector<std::pair<torch::autograd::Edge, uintptr_t>> hooks_;
  std::mutex mutex_;
  int suspended_ = 0;
  int64_t reduced_backwards_ = 0;

  std::vector<int> owners_;  // by bucket; empty: gradients go to everybody
  std::function<void(size_t)> update_;
  bool updated_ = false;  // some parameter, in this backward

  bool in_step_ = false;
  bool step_reduces_ = false;
  bool told_ = false;  // the verdict of this step has been passed
  bool known_ = false;
  bool broken_ = false;  // an exception has left this step's backward
  Failure untold_;

  std::weak_ptr<Run> run_;
  std::vector<at::Tensor> slots_;
  at::Tensor scratch_;  // never touched: it stands for what Gloo takes by malloc, so that budgets count it
  std::vector<bool> slot_taken_;
  std::deque<InFlight> in_flight_;
  std::vector<bool> arrived_;  // by parameter: its gradient came in this backward
  /// By parameter: it has a gradient since the last reduction, also from backwards under no_sync().
  std::vector<bool> used_;
  std::vector<size_t> waiting_for_;  // by bucket: gradients to come
  size_t next_ = 0;                  // bucket to be reduced
  /// Sums of parameters that this rank did not use, until it is known whether anybody did.
  std::vector<std::pair<size_t, at::Tensor>> late_;
  std::vector<bool> used_by_somebody_;
};

}  // namespace encore::dist
