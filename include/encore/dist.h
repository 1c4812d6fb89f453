// Training on many ranks: data parallel over a c10d process group, each rank within its budget.
//
// A library of its own, encore::dist, which is built where LibTorch has c10d with Gloo. All ranks must do the same in
// the same order: make their groups and models, begin and end steps, save and load. Dense CPU tensors only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <encore/budget.h>
#include <encore/error.h>
#include <encore/export.h>

namespace c10d {
class ProcessGroup;
}
namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace encore {

/// A rank threw, is gone or does not answer; or a collective did not end within the time-out.
class ENCORE_API RankError : public Error {
 public:
  RankError(const std::string& what, int rank, std::string collective);
  ~RankError() override;
  /// The rank at fault, by its number in the group; -1 if that is not known.
  int rank() const { return rank_; }
  /// What this rank was taking part in when it learnt of it.
  const std::string& collective() const { return collective_; }

 private:
  int rank_;
  std::string collective_;
};

/// A step does not fit into the budget of one rank. Every rank gets it, or that rank the BudgetError itself.
class ENCORE_API RankBudgetError : public BudgetError {
 public:
  RankBudgetError(const std::string& what, Figures figures, int rank);
  ~RankBudgetError() override;
  int rank() const { return rank_; }

 private:
  int rank_;
};

struct ENCORE_API GroupOptions {
  /// An error arrives after so long at the latest, whatever became of the other ranks.
  std::chrono::milliseconds timeout = std::chrono::minutes(2);
  /// Gloo's network interface, such as "eth0". Empty: what GLOO_SOCKET_IFNAME says, else the loopback if MASTER_ADDR is
  /// this machine, else what this machine's name stands for.
  std::string interface;
};

/// The ranks that train together. Copies share one group. Any thread may ask; collectives run on one thread at a time.
class ENCORE_API RankGroup {
 public:
  /// Joins as the launcher says: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; rank 0 hosts the store unless
  /// TORCHELASTIC_USE_AGENT_STORE says that the launcher does. Without RANK and WORLD_SIZE: a group of one. Returns
  /// when all have joined. Throws InvalidArgument for what can't be right, RankError if not all come.
  static RankGroup from_environment(const GroupOptions& options = {});
  /// A group that the program made itself. Who is lost can't be told then, and there is no without_lost().
  RankGroup(c10::intrusive_ptr<c10d::ProcessGroup> group, const GroupOptions& options = {});

  int rank() const;
  int size() const;
  std::chrono::milliseconds timeout() const;
  /// A collective failed, and nothing can be done in this group any more. Else the step after a RankError works.
  bool is_lost() const;
  /// For collectives of the program's own, outside of steps, in the same order on all ranks.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group() const;

  /// After a RankError: a new group of those that answered, in the order of their ranks. All of them must call it.
  /// Throws ScopeError if nothing failed, RankError if the store's host is lost or those who answered do not come.
  RankGroup without_lost() const;

  struct Impl;

 private:
  friend class DataParallel;
  explicit RankGroup(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

struct ENCORE_API DataParallelOptions {
  int64_t bucket_bytes = int64_t{4} << 20;  ///< of gradients that are reduced together; larger parameters go alone
  int in_flight = 2;                        ///< buckets that are being reduced at once, at most
  bool sync_buffers = true;                 ///< after each reduced backward everybody has rank 0's
};

/// What one rank has done, in a report of all.
struct ENCORE_API RankRow {
  int64_t steps = 0;             ///< begun by DataParallel::step
  int64_t failed_steps = 0;      ///< of them: ended by an exception or a refusal, on whatever rank
  int64_t limit_bytes = -1;      ///< of the budget; -1: none
  int64_t peak_bytes = -1;       ///< of tensors, over all steps; -1: no step had a budget
  int64_t predicted_bytes = -1;  ///< the largest peak that a plan foresaw; -1: no step had a plan
  int64_t process_bytes = -1;    ///< at its most, as the system says
  double step_seconds = 0;       ///< all steps together
  double waiting_seconds = 0;    ///< of it: for other ranks and the network
  int64_t reduced_backwards = 0;
  int64_t sent_bytes = 0;  ///< handed to collectives
};

struct ENCORE_API RanksReport {
  std::vector<RankRow> ranks;
  /// A table, a line for each rank.
  std::string text() const;
  /// The same as one web page that needs no network.
  std::string html(const std::string& title) const;
};

/// Makes the gradients of a model the mean over all ranks: whoever calls loss.backward() finds them reduced when it
/// returns. Names, modules and the model's own code stay as they are. Copies share one; with the last one the hooks are
/// gone.
class ENCORE_API DataParallel {
 public:
  /// Compares the model with the other ranks' and gives everybody rank 0's parameters and buffers. Holds the model's
  /// tensors, not the model. Throws InvalidArgument, on every rank, if models or versions differ.
  DataParallel(const torch::nn::Module& model, RankGroup group, const DataParallelOptions& options = {});

  /// A step that all ranks begin and end together, with exactly one reduced backward in it (none if it began under
  /// no_sync()). If an exception leaves it on one rank, every rank gets one that says which; then the step has ended on
  /// all, generators and buffers are as before, gradients are gone, and the next step works.
  class ENCORE_API Step {
   public:
    Step(Step&&) noexcept;
    Step& operator=(Step&&) = delete;
    ~Step();
    /// Shown with the step in the budget's report.
    void set_loss(double loss);

   private:
    friend class DataParallel;
    struct Impl;
    explicit Step(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };

  /// Begins a step in which nobody has a budget. Throws RankError if a rank failed in the step before after its
  /// gradients were reduced, so that the ranks' parameters may differ.
  [[nodiscard]] Step step();
  /// Begins a step of this rank's budget. If a rank's budget refuses, every rank throws RankBudgetError and none has
  /// begun.
  [[nodiscard]] Step step(MemoryBudget& budget);

  /// While it lives, gradients add up on this rank and are not reduced.
  class ENCORE_API NoSync {
   public:
    NoSync(NoSync&&) noexcept;
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync();

   private:
    friend class DataParallel;
    explicit NoSync(std::shared_ptr<void> impl);
    std::shared_ptr<void> impl_;
  };
  [[nodiscard]] NoSync no_sync();

  /// Gives everybody one rank's parameters and buffers.
  void broadcast(int from = 0);

  RankGroup group() const;
  /// Names of the parameters in each bucket, in the order of reduction.
  std::vector<std::vector<std::string>> buckets() const;
  /// What the reduction takes besides gradients while a step is open: the slots.
  int64_t slot_bytes() const;
  /// What Gloo takes besides, by malloc, while it reduces. Budgets count it: a tensor of that size is there while a
  /// step is open, whose pages nobody touches.
  int64_t scratch_bytes() const;
  /// Of all ranks; all must ask.
  RanksReport report();

  struct Impl;

 private:
  friend class ShardedOptimizer;
  Step begin_step(MemoryBudget* budget);
  std::shared_ptr<Impl> impl_;
};

struct ENCORE_API ShardOptions {
  /// An owner updates each bucket as soon as its gradients have been summed, inside backward, and frees them; step()
  /// does nothing then. A step that fails may have updated some parameters: the error says so.
  bool inside_backward = false;
};

/// Optimizer state spread over the ranks by bytes. From here on gradients are reduced to the owner of their bucket, and
/// after a backward only the owner has them.
class ENCORE_API ShardedOptimizer {
 public:
  /// Makes the optimizer of one parameter; called for those that this rank owns. Any of torch::optim but LBFGS, which
  /// looks at all parameters at once.
  using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor> parameter)>;
  ShardedOptimizer(DataParallel parallel, Make make, const ShardOptions& options = {});

  /// Owners update their parameters and send them to everybody. Gradients are freed.
  void step();
  /// For what a schedule changes: called for each optimizer of this rank with its parameter's name.
  void for_each(const std::function<void(const std::string& name, torch::optim::Optimizer& optimizer)>& change);

  /// Bytes of the parameters that each rank owns.
  std::vector<int64_t> owned_bytes() const;

  /// Rank 0 writes parameters, buffers, all optimizer state and `note` to one file, which any number of ranks can load.
  /// The file appears whole or not at all. Memory: one parameter's state at a time.
  void save(const std::string& path, const std::string& note = {});
  /// Rank 0 reads; everybody gets its part. Returns the note. Throws InvalidArgument, on every rank, if the file is no
  /// such file or of another model.
  std::string load(const std::string& path);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace encore
