// The public face: steps begin, end, and are reported.
#include <encore/budget.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>

#include <encore/bytes.h>
#include <encore/error.h>
#include <encore/memory.h>

#include "budget/known_steps.h"
#include "budget/module_names.h"
#include "budget/run_record.h"
#include "budget/step_governor.h"
#include "checkpoint/open_region.h"
#include "run/blocks.h"

namespace encore {
namespace {

std::atomic<bool> g_step_is_open{false};

int64_t checked_limit(int64_t bytes) {
  if (bytes <= 0) {
    throw InvalidArgument("budget: a limit of " + std::to_string(bytes) + " bytes; state how many tensors may take");
  }
  return bytes;
}

[[noreturn]] void refuse_resting(int64_t resting, int64_t limit) {
  BudgetError::Figures figures;
  figures.needed_bytes = resting;
  figures.limit_bytes = limit;
  throw BudgetError("budget: tensors that rest already take " + format_bytes(resting) + " (" + std::to_string(resting) +
                        " bytes), the budget is " + format_bytes(limit) + "; raise it",
                    figures);
}

[[noreturn]] void refuse_planned(const budget::KnownStep& step, int64_t limit) {
  BudgetError::Figures figures;
  figures.needed_bytes = step.least_bytes;
  figures.limit_bytes = limit;
  figures.least_bytes = step.worked_bytes >= 0 ? std::min(step.least_bytes, step.worked_bytes) : step.least_bytes;
  figures.op = step.model->largest;
  throw BudgetError("budget: no plan for this step is known below " + format_bytes(figures.least_bytes) + " (" +
                        std::to_string(figures.least_bytes) + " bytes), the budget is " + format_bytes(limit) +
                        "; the op that needs most is " + figures.op + ". Raise the budget or lower the batch",
                    figures);
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g ms", seconds * 1e3);
  return text;
}

std::vector<ValueReport> values_of(const budget::Itinerary& plan) {
  const std::vector<plan::Step>& steps = plan.model->graph.steps;
  std::vector<int64_t> times(steps.size(), -1);
  std::vector<char> packed(steps.size(), 0);
  for (const plan::Op& op : plan.plan.schedule) {
    times[static_cast<size_t>(op.step)] += op.kind == plan::OpKind::kCompute ? 1 : 0;
    packed[static_cast<size_t>(op.step)] |= op.kind == plan::OpKind::kEncode ? 1 : 0;
  }
  std::vector<ValueReport> values;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (plan.model->units[i].values.empty()) {
      continue;
    }
    ValueReport value;
    value.name = plan.model->units[i].name + " #" + std::to_string(i);
    value.module = plan.model->units[i].module;
    value.bytes = steps[i].bytes;
    value.seconds = steps[i].time;
    value.times = times[i];
    const bool held = steps[i].held_until + 1 >= static_cast<int32_t>(steps.size());
    if (held) {
      value.action = "held";
      value.why = "in use until the end, or not recomputable";
    } else if (times[i] > 0) {
      value.action = "recomputed";
      value.why = "costs " + milliseconds(steps[i].time) + " for " + format_bytes(value.bytes);
    } else if (packed[i] != 0) {
      value.action = "packed";
      value.why = "a mask, held as " + format_bytes(steps[i].variants.front().bytes) + " of bits";
    } else {
      value.action = "kept";
      value.why = "fits, or is dearer than what was dropped in its place";
    }
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace

struct MemoryBudget::Impl {
  mutable std::mutex mutex;  // of what outlives a step; a step itself is used by its own thread
  int64_t limit_bytes = -1;
  double part = 0;  // of the plain peak above what rests; 0: the limit is in bytes
  int64_t smallest_bytes = budget::kSmallest;
  int64_t next_smallest_bytes = budget::kSmallest;  // from the next step on
  int64_t overestimate = 0;                         // of the plain peak, by the model of the first step
  int64_t steps = 0;
  budget::KnownSteps known;
  budget::ModuleNames modules;
  StepReport last;
  budget::RunRecord record;
  BlockReuse reuse;  // blocks are held from step to step

  /// A step that did not begin.
  void remember_refusal(const BudgetError& error, int64_t resting) {
    StepReport report;
    report.step = steps++;
    report.failed = report.refused = true;
    report.note = error.what();
    report.limit_bytes = limit_bytes;
    report.resting_bytes = report.peak_bytes = resting;
    record.add(report, report::kUnknown);
    last = std::move(report);
  }

  /// The limit of the next step, which for a fraction follows the first steps.
  void find_limit(int64_t resting) {
    const budget::KnownStep* latest = known.latest();
    if (part > 0 && latest != nullptr && (steps <= 3 || limit_bytes < 0)) {
      const int64_t plain = plan::baseline(latest->model->graph_for(resting)).peak_bytes - overestimate;
      limit_bytes = resting + static_cast<int64_t>(part * static_cast<double>(std::max<int64_t>(0, plain - resting)));
    }
  }
};

struct MemoryBudget::Step::Impl {
  Impl(std::shared_ptr<MemoryBudget::Impl> b, budget::StepSetting setting)
      : budget(std::move(b)),
        governor(std::make_shared<budget::StepGovernor>(std::move(setting))),
        open("step", [this](std::shared_ptr<tape::Tape> tape, tape::OpId first, const std::shared_ptr<ReplayRegion>&) {
          RegionOptions options;
          options.policy = keep_all();
          options.together = false;
          options.is_checkpoint = false;
          options.governor = governor;
          options.before_op = [watching = governor.get()](record::Recorder&, tape::OpId) {
            watching->op_starts();
            return false;
          };
          return std::make_shared<ReplayRegion>(std::move(tape), first, nullptr, std::move(options));
        }) {}

  void end() noexcept;
  void learn();
  void remember();

  std::shared_ptr<MemoryBudget::Impl> budget;
  std::shared_ptr<budget::StepGovernor> governor;
  OpenRegion open;
  MemoryScope memory;
  StepReport report;
  double loss = report::kUnknown;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  int exceptions = std::uncaught_exceptions();
};

MemoryBudget::MemoryBudget(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

MemoryBudget::MemoryBudget(std::string_view limit) : impl_(std::make_shared<Impl>()) {
  set_limit(limit);
}

MemoryBudget::MemoryBudget(int64_t limit_bytes) : impl_(std::make_shared<Impl>()) {
  set_limit(limit_bytes);
}

MemoryBudget MemoryBudget::fraction(double part) {
  if (!(part > 0 && part <= 1)) {
    throw InvalidArgument("budget: a fraction of " + std::to_string(part) + "; it must be above 0 and at most 1");
  }
  auto impl = std::make_shared<Impl>();
  impl->part = part;
  return MemoryBudget(std::move(impl));
}

void MemoryBudget::set_limit(std::string_view limit) {
  set_limit(parse_bytes(limit));
}

void MemoryBudget::set_limit(int64_t limit_bytes) {
  checked_limit(limit_bytes);
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->limit_bytes = limit_bytes;
  impl_->part = 0;
}

void MemoryBudget::leave_alone_below(int64_t bytes) {
  if (bytes < 1) {
    throw InvalidArgument("budget: values below " + std::to_string(bytes) + " bytes are to stay; state at least 1");
  }
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->next_smallest_bytes = bytes;
}

int64_t MemoryBudget::limit_bytes() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->limit_bytes;
}

StepReport MemoryBudget::report() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->last;
}

std::string MemoryBudget::run_json(std::string_view name, const std::vector<RunSystem>& systems) const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return report::to_json(impl_->record.run(name, systems));
}

std::string MemoryBudget::run_html(std::string_view name, const std::vector<RunSystem>& systems) const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return report::to_html(impl_->record.run(name, systems));
}

void MemoryBudget::name_modules_of(const torch::nn::Module& model) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->modules.add(model);
}

void MemoryBudget::Step::set_loss(double loss) {
  impl_->loss = loss;
}

MemoryBudget::Step MemoryBudget::step() {
  if (record::Recorder::current() != nullptr) {
    throw ScopeError("budget: a scope, checkpoint or step is open on this thread; begin steps outside of them");
  }
  if (g_step_is_open.exchange(true)) {
    throw ScopeError("budget: another step is open in this process; the limit is the process's, so steps run in turn");
  }
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const int64_t resting = run::Meter::instance().live();
  try {
    if (impl_->smallest_bytes != impl_->next_smallest_bytes) {
      impl_->smallest_bytes = impl_->next_smallest_bytes;
      impl_->known = budget::KnownSteps();  // steps as they were known have other values
    }
    impl_->find_limit(resting);
    const int64_t limit = impl_->limit_bytes;
    budget::StepSetting setting;
    setting.smallest_bytes = impl_->smallest_bytes;
    double planning_seconds = 0;
    if (limit >= 0) {
      if (resting > limit) {
        refuse_resting(resting, limit);
      }
      setting.limit_bytes = limit;
      if (budget::KnownStep* latest = impl_->known.latest()) {
        planning_seconds = budget::KnownSteps::prepare(*latest, limit, resting);
        if (latest->is_refused(limit)) {
          refuse_planned(*latest, limit);
        }
        setting.first = latest->plan;
      }
      setting.find = [known = &impl_->known, limit](size_t index, uint64_t path) {
        return known->find_plan(index, path, limit);
      };
    }
    auto step = std::make_unique<Step::Impl>(impl_, std::move(setting));
    step->report.step = impl_->steps;
    step->report.limit_bytes = limit;
    step->report.resting_bytes = resting;
    step->report.planning_seconds = planning_seconds;
    step->governor->start(std::static_pointer_cast<ReplayRegion>(step->open.region()));
    run::Blocks::instance().trim();
    return Step(std::move(step));
  } catch (const BudgetError& error) {
    g_step_is_open = false;
    impl_->remember_refusal(error, resting);
    throw;
  } catch (...) {
    g_step_is_open = false;
    throw;
  }
}

MemoryBudget::Step::Step(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MemoryBudget::Step::Step(Step&&) noexcept = default;

MemoryBudget::Step::~Step() {
  if (impl_) {
    impl_->end();
  }
}

void MemoryBudget::Step::Impl::end() noexcept {
  governor->stop();
  report.step_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.failed = std::uncaught_exceptions() > exceptions;
  report.peak_bytes = memory.peak_bytes();
  try {
    learn();
  } catch (const std::exception& error) {
    report.note = std::string("nothing was learnt from this step: ") + error.what();
  }
  try {
    open.close("step");
  } catch (const std::exception& error) {
    report.note = error.what();
  }
  try {
    remember();
  } catch (const std::bad_alloc&) {
    // The step is over either way; its report is not worth more.
  }
  g_step_is_open = false;
}

void MemoryBudget::Step::Impl::remember() {
  const std::lock_guard<std::mutex> lock(budget->mutex);
  ++budget->steps;
  budget->record.add(report, loss);
  if (report.mode == StepMode::kPlanned || budget->steps == 1) {
    const auto plan = report.mode == StepMode::kPlanned ? governor->itinerary() : nullptr;
    budget->record.show({report.step, report.resting_bytes, plan, governor->take_journal()});
  }
  budget->last = std::move(report);
}

void MemoryBudget::Step::Impl::learn() {
  const std::lock_guard<std::mutex> lock(budget->mutex);
  const budget::Journal& journal = governor->journal();
  const budget::StepFigures& figures = governor->figures();
  report.signature = journal.signature();
  report.replay_seconds = static_cast<double>(figures.replay_ns) * 1e-9;
  report.eviction_seconds = static_cast<double>(figures.evict_ns) * 1e-9;
  report.ops_replayed = figures.ops_replayed;
  report.evictions = figures.evictions;
  report.mode = report.limit_bytes < 0 ? StepMode::kLearning : StepMode::kOnline;
  if (report.failed) {
    report.refused = !figures.refused.empty();
    report.note = report.refused ? figures.refused : "an exception left the step";
  } else if (figures.left_plan) {
    report.note = "left the plan at " + figures.left_at;
  }
  const std::lock_guard<std::recursive_mutex> tape_lock(open.tape()->mutex());
  report.ops_recorded = static_cast<int64_t>(open.tape()->ops().size());
  const auto& plan = governor->itinerary();
  if (plan && plan->model->path.size() == journal.events.size() && !report.failed) {
    report.mode = StepMode::kPlanned;
    report.predicted_peak_bytes = plan->plan.peak_bytes;
    report.predicted_seconds = plan->plan.time;
    report.plain_seconds = plan->plan.baseline_time;
    report.plain_peak_bytes = plan->plan.baseline_peak_bytes;
    report.values_kept = plan->units_kept;
    report.values_dropped = plan->units_dropped;
    report.values_packed = plan->units_packed;
    report.values = values_of(*plan);
  }
  if (report.failed || !journal.plannable || journal.events.empty()) {
    return;
  }
  const bool seen_enough =
      report.mode == StepMode::kPlanned && report.step > 8 && report.step % 16 != 0 && figures.evictions == 0;
  if (!seen_enough) {
    const std::vector<std::string> modules = budget->modules.of_ops(*open.tape());
    budget->known.learn(budget::build_model(*open.tape(), journal, modules), report.limit_bytes);
  }
  if (report.mode != StepMode::kPlanned) {
    const budget::StepModel& model = *budget->known.latest()->model;
    const int64_t modelled = plan::baseline(model.graph_for(report.resting_bytes)).peak_bytes;
    const bool holds_bits = report.mode != StepMode::kLearning && !journal.packings.empty();
    const bool ran_plainly = figures.evictions == 0 && figures.replays == 0 && !holds_bits;
    report.plain_peak_bytes = ran_plainly ? report.peak_bytes : modelled;
    if (report.mode == StepMode::kLearning) {
      budget->overestimate = std::max<int64_t>(0, modelled - report.peak_bytes);
    }
  }
}

}  // namespace encore
