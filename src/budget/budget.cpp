// The public face: steps begin, end, and are reported.
#include <encore/budget.h>

#include <atomic>

#include <encore/bytes.h>
#include <encore/error.h>

#include "base/clock.h"
#include "budget/budget_impl.h"
#include "budget/value_reports.h"
#include "record/backward.h"
#include "run/allocator.h"
#include "run/blocks.h"
#include "run/process.h"

namespace encore {
namespace {

std::atomic<bool> g_step_is_open{false};

int64_t checked_limit(int64_t bytes) {
  if (bytes <= 0) {
    throw InvalidArgument("budget: a limit of " + std::to_string(bytes) + " bytes; state how many tensors may take");
  }
  return bytes;
}

}  // namespace

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
  impl->fraction.of = budget::Fraction::Of::kPlain;
  impl->fraction.part = part;
  return MemoryBudget(std::move(impl));
}

MemoryBudget MemoryBudget::slowdown(double factor) {
  if (!(factor >= 1)) {
    throw InvalidArgument("budget: a slowdown of " + std::to_string(factor) +
                          "; a step takes at least 1 times as long");
  }
  auto impl = std::make_shared<Impl>();
  impl->fraction.of = budget::Fraction::Of::kSlowdown;
  impl->fraction.part = factor;
  return MemoryBudget(std::move(impl));
}

MemoryBudget MemoryBudget::least() {
  auto impl = std::make_shared<Impl>();
  impl->fraction.of = budget::Fraction::Of::kLeast;
  return MemoryBudget(std::move(impl));
}

void MemoryBudget::set_limit(std::string_view limit) {
  set_limit(parse_bytes(limit));
}

void MemoryBudget::set_limit(int64_t limit_bytes) {
  checked_limit(limit_bytes);
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->limit_bytes = limit_bytes;
  impl_->fraction = budget::Fraction();
}

void MemoryBudget::leave_alone_below(int64_t bytes) {
  if (bytes < 1) {
    throw InvalidArgument("budget: values below " + std::to_string(bytes) + " bytes are to stay; state at least 1");
  }
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->next_smallest_bytes = bytes;
}

void MemoryBudget::wait_for_plans(bool wait) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->waits_for_plans = wait;
}

int64_t MemoryBudget::limit_bytes() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->limit_bytes;
}

StepReport MemoryBudget::report() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  StepReport report = impl_->last;
  if (impl_->last_plan) {  // which takes longer than a small step, and few ask
    report.values = budget::values_of(*impl_->last_plan);
    report.held = budget::held_at_peak(*impl_->last_plan, report.resting_bytes);
  }
  if (report.step < 0) {
    report.limit_bytes = impl_->limit_bytes;
  }
  return report;
}

std::optional<BudgetError> MemoryBudget::refusal() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->refusal;
}

std::string MemoryBudget::run_json(std::string_view name, const std::vector<RunSystem>& systems) const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return report::to_json(impl_->record.run(name, systems));
}

std::string MemoryBudget::graph_json() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->record.graph_json();
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

void MemoryBudget::Step::abandon() {
  impl_->abandoned = true;
}

void MemoryBudget::Step::enter_module(std::string name) {
  if (!impl_->governor->is_routine()) {
    impl_->trail.enter(impl_->ops_so_far(), std::move(name));
  }
}

void MemoryBudget::Step::leave_module() {
  if (!impl_->governor->is_routine()) {
    impl_->trail.leave(impl_->ops_so_far());
  }
}

MemoryBudget::Step MemoryBudget::step() {
  return Impl::begin(impl_, nullptr);
}

bool MemoryBudget::Impl::take_turn() {
  return !g_step_is_open.exchange(true);
}

void MemoryBudget::Impl::end_turn() {
  g_step_is_open = false;
}

MemoryBudget::Step MemoryBudget::Impl::begin(const std::shared_ptr<Impl>& impl, budget::Rehearsing* rehearsing) {
  if (record::Recorder::current() != nullptr) {
    throw ScopeError("budget: a scope, checkpoint or step is open on this thread; begin steps outside of them");
  }
  if (!take_turn()) {
    throw ScopeError("budget: another step is open in this process; the limit is the process's, so steps run in turn");
  }
  const std::lock_guard<std::mutex> lock(impl->mutex);
  const int64_t resting = run::Meter::instance().live();
  if (rehearsing == nullptr) {
    impl->refusal.reset();
  }
  try {
    run::ensure_counting();
    if (impl->smallest_bytes != impl->next_smallest_bytes) {
      impl->smallest_bytes = impl->next_smallest_bytes;
      impl->known = budget::KnownSteps();  // steps as they were known have other values
    }
    double planning_seconds = impl->find_limit(resting);
    const bool learns = rehearsing != nullptr && impl->fraction.is_learnt();
    const int64_t limit = learns ? -1 : impl->limit_bytes;
    budget::StepSetting setting;
    setting.smallest_bytes = impl->smallest_bytes;
    setting.leaves_no_trace = rehearsing != nullptr;
    if (limit >= 0) {
      if (resting > limit && !impl->fraction.refuses_nothing()) {
        budget::refuse_resting(resting, limit,
                               run::Meter::instance().live_of_other_threads(run::Meter::slot_of_this_thread()));
      }
      setting.limit_bytes = limit;
      setting.at_the_end = impl->at_the_end();
      planning_seconds += impl->expect(setting, limit, resting);
    }
    auto step = std::make_unique<Step::Impl>(impl, std::move(setting));
    step->rehearsing = rehearsing;
    step->report.step = impl->steps;
    step->report.limit_bytes = limit;
    step->report.resting_bytes = resting;
    step->report.planning_seconds = planning_seconds;
    step->report.note = std::exchange(impl->trouble, {});
    run::Blocks::instance().trim();
    // Planning and learning leave a lot in it; a step's books do not, since the next one's take their place.
    const double spent_seconds = impl->known.thrift().spent_seconds();
    if (limit >= 0 && std::exchange(impl->trimmed_after_seconds, spent_seconds) != spent_seconds) {
      run::Blocks::trim_heap(limit);
    }
    step->governor->start(std::static_pointer_cast<region::ReplayRegion>(step->open.region()));  // the limit is on
    return Step(std::move(step));
  } catch (const BudgetError& error) {
    end_turn();
    if (rehearsing == nullptr) {
      impl->remember_refusal(error, resting);
    }
    throw;
  } catch (...) {
    end_turn();
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
  const budget::StepFigures figures = governor->figures();
  const bool threw = abandoned || std::uncaught_exceptions() > exceptions;
  // A refusal that the user's code has caught counts if the step did nothing more.
  report.refused = figures.refused.has_value() && (threw || figures.refused_at == governor->num_events());
  report.failed = threw || report.refused;
  report.peak_bytes = memory.peak_bytes();
  report.process_bytes = figures.process_bytes;
  // The system counts pages of the two at different times, and may know of a lower peak than was seen.
  report.process_peak_bytes = std::max(run::process_peak_bytes(), figures.process_bytes);
  report.foreign_bytes = figures.foreign_bytes;
  if (figures.limit_was_lifted) {
    report.limit_bytes = -1;
  }
  try {
    rehearsing != nullptr ? end_rehearsal(figures) : learn(figures);
  } catch (const std::exception& error) {
    report.note = std::string("nothing was learnt from this step: ") + error.what();
  }
  try {
    open.close("step");
  } catch (const std::exception& error) {
    report.failed = true;
    report.note = error.what();
  }
  try {
    if (report.refused || rehearsing != nullptr) {
      put_back();
    }
    if (report.failed) {
      record::let_go_of_failed_backward();
    }
    if (rehearsing == nullptr) {
      remember(figures);
    }
  } catch (const std::exception& error) {
    // The step is over either way.
    if (rehearsing != nullptr && !rehearsing->failure) {
      rehearsing->failure = std::current_exception();
    }
    tell_trouble(std::string("not everything was put back: ") + error.what());
  }
  if (report.limit_bytes < 0) {
    run::Blocks::instance().give_back();  // what is above the limit to come
  }
  MemoryBudget::Impl::end_turn();
}

/// The last report says so, whatever else it says.
void MemoryBudget::Step::Impl::tell_trouble(std::string trouble) noexcept {
  const std::lock_guard<std::mutex> lock(budget->mutex);
  report.failed = true;
  report.note = std::move(trouble);
  budget->last = report;
}

void MemoryBudget::Step::Impl::put_back() {
  if (rehearsing != nullptr && rehearsing->put_back) {
    try {
      rehearsing->put_back();
    } catch (...) {
      rehearsing->failure = std::current_exception();
    }
  }
  std::vector<at::Tensor> gone;  // without locks
  const tape::RandomLock random = tape::lock_random_ops();
  const std::lock_guard<RecursiveMutex> lock(open.tape().mutex());
  gone = governor->undo().put_back(open.tape());
}

void MemoryBudget::Step::Impl::remember(const budget::StepFigures& figures) {
  const std::lock_guard<std::mutex> lock(budget->mutex);
  if (report.refused) {
    budget->refusal = figures.refused;
  }
  ++budget->steps;
  budget->last_plan = report.mode == StepMode::kPlanned ? governor->itinerary() : nullptr;
  budget->record.add(report, loss);
  if (!report.routine && (report.mode == StepMode::kPlanned || budget->steps == 1)) {
    const auto plan = report.mode == StepMode::kPlanned ? governor->itinerary() : nullptr;
    budget->record.show({report.step, report.resting_bytes, plan, governor->take_journal()});
  }
  budget->last = report;
}

void MemoryBudget::Step::Impl::learn(const budget::StepFigures& figures) {
  const std::lock_guard<std::mutex> lock(budget->mutex);
  const budget::Journal& journal = governor->journal();
  report.signature = figures.routine.value_or(journal.signature());
  report.routine = figures.routine.has_value() && !figures.left_plan;
  report.replay_seconds = static_cast<double>(figures.replay_ns) * 1e-9;
  report.eviction_seconds = static_cast<double>(figures.evict_ns) * 1e-9;
  report.ops_replayed = figures.ops_replayed;
  report.evictions = figures.evictions;
  report.mode = report.limit_bytes < 0 ? StepMode::kLearning : StepMode::kOnline;
  if (report.failed) {
    report.note = report.refused ? figures.refused->what() : "an exception left the step";
  } else if (figures.limit_was_lifted) {
    report.note =
        "a step of another kind, which needs more than the budget learnt so far: run without a limit to learn";
  } else if (figures.left_plan) {
    report.note = "left the plan at " + figures.left_at;
  }
  const std::lock_guard<RecursiveMutex> tape_lock(open.tape().mutex());
  report.ops_recorded = static_cast<int64_t>(open.tape().ops().size());
  report.book_bytes = open.residency()->book_bytes() + governor->book_bytes();
  const auto& plan = governor->itinerary();
  const bool to_its_end = plan && (report.routine || plan->model->path.size() == journal.events.size());
  if (to_its_end && !report.failed && !figures.limit_was_lifted) {
    tell_plan(*plan);
  }
  const bool was_pressed = figures.evictions > 0 || figures.replays > 0;
  if (budget::KnownStep* taken_for = budget->known.latest(); figures.routine && figures.left_plan && was_pressed) {
    taken_for->hides_others = true;
  }
  if (report.refused && figures.refused_as) {
    budget->known.expect_again(*figures.refused_as);
  }
  if (report.failed || !journal.plannable || (journal.events.empty() && !figures.routine)) {
    return;
  }
  const budget::Sight sight = budget->known.see(report.signature, report.step_seconds);
  // A fraction can't do without a model until it is known what of.
  const bool must_learn = budget->fraction.is_learnt() && (budget->limit_bytes < 0 || !budget->fraction.is_settled);
  const bool followed = report.mode == StepMode::kPlanned && figures.evictions == 0;
  if (budget::KnownStep* known = budget->known.latest()) {
    known->went_smoothly = followed;
  }
  const bool may_learn = !figures.routine;
  if (may_learn && (must_learn || budget->known.is_worth_learning(sight, journal.events.size(), followed))) {
    const int64_t start_ns = now_ns();
    budget::StepModel model = build_model();
    budget->known.learn(std::move(model), report.limit_bytes, sight, static_cast<double>(now_ns() - start_ns) * 1e-9);
  }
  learn_plain_peak(figures);
  report.kinds_seen = budget->known.thrift().kinds();
  report.kinds_known = static_cast<int64_t>(budget->known.size());
  report.training_seconds = budget->known.thrift().trained_seconds();
  report.learning_seconds = budget->known.thrift().spent_seconds();
}

/// Under the tape's lock.
budget::StepModel MemoryBudget::Step::Impl::build_model() const {
  const std::vector<std::string> modules =
      trail.empty() ? budget::module_paths(budget->modules, open.tape()) : trail.of_ops(open.tape().ops().size());
  budget::StepModel model = budget::build_model(*open.residency(), governor->journal(), report.resting_bytes, modules);
  // What backward has left with others than leaves, as torch::autograd::grad does, zero_grad() does not let go.
  int64_t leaves_bytes = 0;
  for (const budget::Undo::LeafBytes& leaf : governor->undo().leaves()) {
    leaves_bytes += leaf.gradient != nullptr ? leaf.nbytes : 0;
  }
  model.gradients_go = model.gradients_go && 2 * leaves_bytes >= model.gradient_bytes();
  return model;
}

/// Whether it did what it does without Encore.
bool MemoryBudget::Step::Impl::ran_plainly(const budget::StepFigures& figures) const {
  const bool holds_forms = report.limit_bytes >= 0 && !governor->journal().packings.empty();
  return figures.evictions == 0 && figures.replays == 0 && !holds_forms;
}

void MemoryBudget::Step::Impl::end_rehearsal(const budget::StepFigures& figures) {
  const std::lock_guard<std::mutex> lock(budget->mutex);
  const std::lock_guard<RecursiveMutex> tape_lock(open.tape().mutex());
  const budget::Journal& journal = governor->journal();
  rehearsing->peak_bytes = report.peak_bytes;
  rehearsing->resting_bytes = report.resting_bytes;
  rehearsing->ran_plainly = ran_plainly(figures);
  rehearsing->seen_plain_bytes = std::max(report.peak_bytes, figures.plain_peak_bytes);
  rehearsing->seconds = report.step_seconds;
  rehearsing->copied_bytes = governor->undo().copied_bytes();
  rehearsing->parameters_written = governor->undo().parameters_written();
  if (report.refused) {
    rehearsing->refusal = figures.refused;
  }
  if (!report.failed && journal.plannable && !journal.events.empty()) {
    rehearsing->model = std::make_shared<budget::StepModel>(build_model());
  }
}

void MemoryBudget::Step::Impl::tell_plan(const budget::Itinerary& plan) {
  report.mode = StepMode::kPlanned;
  report.predicted_peak_bytes = plan.plan.peak_bytes;
  report.predicted_seconds = plan.plan.time;
  report.plain_seconds = plan.plan.baseline_time;
  report.plain_peak_bytes = plan.plan.baseline_peak_bytes;
  report.values_kept = plan.units_kept;
  report.values_dropped = plan.units_dropped;
  report.values_packed = plan.units_packed;
}

/// What the step needs without Encore: measured if it ran as it does there, else by its model.
void MemoryBudget::Step::Impl::learn_plain_peak(const budget::StepFigures& figures) {
  const budget::Journal& journal = governor->journal();
  const budget::KnownStep* known = budget->known.latest();
  const bool plainly = ran_plainly(figures);
  const bool has_backward = report.routine || std::any_of(journal.events.begin(), journal.events.end(),
                                                          [](const budget::Event& event) { return event.backward; });
  if (known == nullptr) {
    report.plain_peak_bytes = plainly ? report.peak_bytes : std::max(report.peak_bytes, figures.plain_peak_bytes);
    if (has_backward) {
      budget->fraction.has_seen(report.plain_peak_bytes - report.resting_bytes);
    }
    return;
  }
  if (report.mode != StepMode::kPlanned) {
    const int64_t modelled = plan::baseline(known->model->graph_for(report.resting_bytes)).peak_bytes;
    report.plain_peak_bytes = plainly ? report.peak_bytes : modelled;
    if (plainly && report.mode == StepMode::kLearning) {
      budget->fraction.overestimate_bytes = std::max<int64_t>(0, modelled - report.peak_bytes);
    }
  }
  if (has_backward) {
    budget->fraction.news = known->model;
  }
}

}  // namespace encore
