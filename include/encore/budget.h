// Training inside a byte budget: state the bytes, and nothing else in the model changes.
//
// The budget is the peak of all CPU tensor bytes of the process (parameters, gradients, optimizer state, activations,
// temporaries), whenever and by whomever they were made, measured at the allocator. Free blocks that are held for reuse
// count too, and the process follows: what it grows by is the limit and a few percent. Not governed, but measured and
// reported, since they are no tensors: what BLAS, oneDNN and thread pools allocate for themselves, code, stacks,
// Encore's own books, and 64 bytes for each block.
//
// The process's CPU allocator slot is taken when the library is loaded, its autograd engine slot on first use; both for
// the rest of the process. The limit holds within steps. While a budget lives, blocks are reused as by BlockReuse,
// between its steps too; with the last budget they go back to the system.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <encore/error.h>
#include <encore/export.h>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace encore {

/// What became of the values that one op made.
struct ValueReport {
  std::string name;    ///< the op that made it, and its place in the step: "aten::gelu #31"
  std::string module;  ///< the innermost one known to contain that op: "blocks.3.mlp"; see name_modules_of()
  int64_t bytes = 0;
  std::string action;  ///< "kept", "packed", "recomputed" or "held" (by the user's own code, or not recomputable)
  std::string why;
  double seconds = 0;  ///< of computing it once
  int64_t times = 0;   ///< it is computed again
};

/// Another way of running the same step, to be shown next to the budget's own.
struct RunSystem {
  std::string name;
  int64_t peak_bytes = -1;
  double step_seconds = 0;
  bool bit_identical = false;
};

enum class StepMode {
  kLearning,  ///< without a limit, to learn the plain peak (only with MemoryBudget::fraction)
  kOnline,    ///< recorded, values evicted by price where needed
  kPlanned,   ///< along a plan to its end
};

/// One training step.
struct ENCORE_API StepReport {
  int64_t step = -1;       ///< 0, 1, ...; -1: there was none yet
  uint64_t signature = 0;  ///< of ops, shapes, types and gradient modes; equal steps have equal ones
  StepMode mode = StepMode::kOnline;
  std::string note;  ///< why a step with a plan went on online; else empty
  /// It came as it had come many times in a row, by a plan that asks for nothing: only that was looked at, and how its
  /// ops fared was not written down.
  bool routine = false;
  bool failed = false;   ///< an exception left the step
  bool refused = false;  ///< by a BudgetError, out of step() or out of an allocation; `note` says what it said

  int64_t limit_bytes = -1;           ///< -1: none
  int64_t resting_bytes = 0;          ///< live when the step began
  int64_t peak_bytes = 0;             ///< measured at the allocator
  int64_t predicted_peak_bytes = -1;  ///< planned steps only
  int64_t plain_peak_bytes = -1;      ///< of the same step without Encore, by the recorded graph; -1 if not known
  /// Of tensors that ops read and that no allocator of LibTorch's made, such as from_blob's: not in the counts above.
  int64_t foreign_bytes = 0;
  /// What the operating system says the whole process took, at its most when the step began, when backward began and
  /// when the step ended; and at its most since the process began, as `time -v` says. What is not tensors is BLAS,
  /// oneDNN, code, stacks and Encore's own books.
  int64_t process_bytes = -1;
  int64_t process_peak_bytes = -1;
  /// Of them Encore's own, when the step ended: its tape, where its values are, the tensors that autograd saved.
  int64_t book_bytes = 0;

  double step_seconds = 0;
  double predicted_seconds = -1;  ///< planned steps only: the sum of all ops, without the user's own code
  double plain_seconds = -1;      ///< the same sum without recomputation
  double replay_seconds = 0;
  double planning_seconds = 0;  ///< that the step waited for plans before it began
  double eviction_seconds = 0;
  /// Kinds of steps (signatures) that this budget has seen so far, and those of them that it has learnt. One that was
  /// seen once is not worth that, and there is a bound: steps of the others are online.
  int64_t kinds_seen = 0;
  int64_t kinds_known = 0;
  double training_seconds = 0;  ///< of all steps so far that ended well
  double learning_seconds = 0;  ///< that learning from them and planning took, besides
  int64_t ops_recorded = 0;
  int64_t ops_replayed = 0;
  int64_t evictions = 0;  ///< under pressure, not by plan
  int64_t values_kept = 0;
  int64_t values_packed = 0;  ///< of those kept: in a smaller form
  int64_t values_dropped = 0;
  std::vector<ValueReport> values;  ///< planned steps only
  /// What the user's own code held when the plan needs most, although nobody used it then, largest first: variables,
  /// lists, temporaries of long expressions. It could be given up if they let go of it.
  std::vector<ValueReport> held;

  /// All of it on one screen.
  std::string text() const;
};

/// What a step will need. -1 where that is not known: a step that can't be planned has no least budget.
struct StepForecast {
  int64_t resting_bytes = -1;     ///< live when it begins
  int64_t plain_peak_bytes = -1;  ///< without Encore
  int64_t least_bytes = -1;       ///< the least budget for which a plan is known
  double plain_seconds = -1;      ///< the sum of all ops, without the user's own code
  /// By the plan for the budget as it is; -1 if there is none.
  int64_t predicted_peak_bytes = -1;
  double predicted_seconds = -1;
};

/// What a rehearsal shows.
struct ENCORE_API Rehearsed {
  StepForecast first;  ///< the step as it was rehearsed
  /// Those after it, which begin with the gradients and the optimizer's state that the first one makes.
  StepForecast later;
  int64_t limit_bytes = -1;  ///< of the budget, -1 if it is not known
  int64_t copied_bytes = 0;  ///< of tensors that were put back; copies are not counted as tensors
  int64_t left_bytes = 0;    ///< of tensors that the step left with the user's own code, such as a loss
  double rehearsal_seconds = 0;

  /// Whether there are plans that keep the limit, for the first step and those after it.
  bool fits() const;
  /// All of it on one screen.
  std::string text() const;
};

struct LargestBatch {
  int64_t batch = 0;
  Rehearsed forecast;      ///< for that batch
  int64_t rehearsals = 0;  ///< that it took to find it
};

/// A limit on all CPU tensor bytes of this process, kept while training. Copies share one budget. Steps of all budgets
/// of a process run one after another.
class ENCORE_API MemoryBudget {
 public:
  /// `limit`: "512MiB", "2GB", ... Throws InvalidArgument for anything else, and for 0.
  explicit MemoryBudget(std::string_view limit);
  explicit MemoryBudget(int64_t limit_bytes);
  /// A part, above 0 and at most 1, of what the plain step needs above what rests. The first step with a backward runs
  /// without a limit and shows how much that is; so does a step of a kind that was never seen, from where it would be
  /// refused. Such steps are `StepMode::kLearning` in the report. With a part of 1 no step is ever refused.
  static MemoryBudget fraction(double part);
  /// The least bytes in which a step takes at most `factor` (1 or more) times as long as plainly, by the recorded times
  /// of its ops. Learnt as a fraction is, and as steps of other kinds come: the limit is that of the kind that needs
  /// most.
  static MemoryBudget slowdown(double factor);
  /// The least bytes for which a plan is known, however slow. Learnt likewise.
  static MemoryBudget least();

  /// The scope of one training step: recording, eviction and replay are on until it ends. Ends on the thread that began
  /// it. An exception may leave it.
  class ENCORE_API Step {
   public:
    Step(Step&&) noexcept;
    Step& operator=(Step&&) = delete;
    ~Step();

    /// Shown with the step in the run's report.
    void set_loss(double loss);
    /// Something went wrong that is no C++ exception: the step counts as failed, and nothing is learnt from it.
    void abandon();
    /// Ops from here on belong to the module of that name in the report, until it is left; the innermost one counts. In
    /// place of what name_modules_of() finds out. On the step's own thread.
    void enter_module(std::string name);
    void leave_module();

   private:
    friend class MemoryBudget;
    struct Impl;
    explicit Step(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };

  /// Begins a step. Throws BudgetError if what rests already does not fit; ScopeError if a step is open in this
  /// process; SlotError as checkpoint() does. Where allocations in the step can't be met they throw BudgetError; the
  /// step must then be ended, and what it did is put back: generators, buffers, gradients. Only what an optimizer has
  /// written is not: the error says so.
  [[nodiscard]] Step step();

  /// Runs the training step `step` once, within the limit (a fraction: without one), and puts everything back bit for
  /// bit: parameters, buffers, gradients, generators. Tells what such a step needs; the next step of this kind is
  /// planned. `step` is what the loop does between step() and the end of that scope, and opens none itself.
  /// `optimizers`: all that it steps or whose gradients it lets go of, since their own counts are no tensors.
  /// `put_back` is called when the step has run, also if it threw, for what else it changed: variables that it assigns
  /// to, files. Reports do not show it. Throws ScopeError as step() does, BudgetError if the step does not even fit
  /// while values are evicted, InvalidArgument if it stepped an optimizer that was not passed, and whatever `step`
  /// throws.
  Rehearsed rehearse(const std::function<void()>& step, const std::vector<torch::optim::Optimizer*>& optimizers = {},
                     const std::function<void()>& put_back = {});
  /// The largest batch from `low` to `high` whose steps fit: `step` runs one for the batch size that it gets, and each
  /// is a rehearsal, within the limit. The next step of the kind that was found is planned. Takes for granted that a
  /// larger batch needs more. Throws BudgetError if `low` does not fit; InvalidArgument without a limit in bytes.
  LargestBatch largest_batch(const std::function<void(int64_t)>& step, int64_t low, int64_t high,
                             const std::vector<torch::optim::Optimizer*>& optimizers = {},
                             const std::function<void()>& put_back = {});

  /// From the next step on. Throws as the constructors do.
  void set_limit(std::string_view limit);
  void set_limit(int64_t limit_bytes);
  /// -1 while a fraction is not known in bytes yet.
  int64_t limit_bytes() const;

  /// Values of fewer bytes stay where they are, from the next step on: giving them up would not be worth the
  /// bookkeeping. 512 unless told otherwise. Throws InvalidArgument for less than 1.
  void leave_alone_below(int64_t bytes);

  /// A step that could do with a plan gets a sketch at once, and a better one is made on a thread of Encore's own while
  /// training goes on, so that no step waits for it; which step is the first to follow it depends on the clock. With
  /// `wait` each step waits for its plan, so that two runs are alike. From the next step on; false unless told
  /// otherwise, or the environment has ENCORE_WAIT_FOR_PLANS=1.
  void wait_for_plans(bool wait = true);

  /// Reports name values by the model's modules from the next step on. An op that reads a parameter belongs to that
  /// parameter's module; for the others see docs/report.md. The model may be called in any way, and is not changed.
  void name_modules_of(const torch::nn::Module& model);

  /// Of the last step, also if it was refused before it began.
  StepReport report() const;
  /// Why the last step was refused, if it was: for exceptions that arrive as another type, as they do out of
  /// TorchScript.
  std::optional<BudgetError> refusal() const;

  /// All steps so far, the last planned one in detail (its memory over time, the memory/time curve around it, every
  /// value), as JSON of the format "encore-run-1", which the commands `encore report` and `encore trace` read. The
  /// curve is planned here and takes a few seconds for a large model.
  std::string run_json(std::string_view name, const std::vector<RunSystem>& systems = {}) const;
  /// The last planned step as the planner saw it, JSON of the format "encore-graph-1", which `encore plan` and
  /// `encore curve` read. Empty if no step was planned.
  std::string graph_json() const;
  /// The run as one web page that needs no network.
  std::string run_html(std::string_view name, const std::vector<RunSystem>& systems = {}) const;

 private:
  struct Impl;
  explicit MemoryBudget(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace encore
