// What a budget and an open step are made of, for the files that share the work.
#pragma once

#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>

#include <encore/budget.h>
#include <encore/memory.h>

#include "base/clock.h"
#include "budget/fraction.h"
#include "budget/known_steps.h"
#include "budget/module_names.h"
#include "budget/module_trail.h"
#include "budget/refusals.h"
#include "budget/run_record.h"
#include "budget/step_governor.h"
#include "region/open_region.h"

namespace encore {
namespace budget {

/// A step that must leave no trace, and what it showed.
struct Rehearsing {
  std::function<void()> put_back;  // what no tape sees, when it is over; may throw
  int64_t resting_bytes = 0;
  int64_t peak_bytes = 0;
  bool ran_plainly = false;      // nothing was given up: its peak is that of plain training
  int64_t seen_plain_bytes = 0;  // of plain training at its most, as far as was looked at
  double seconds = 0;
  int64_t copied_bytes = 0;
  int64_t parameters_written = 0;
  std::shared_ptr<StepModel> model;  // null if it can't be planned
  std::optional<BudgetError> refusal;
  std::exception_ptr failure;  // of putting back
};

}  // namespace budget

struct MemoryBudget::Impl {
  struct Rehearser;

  mutable std::mutex mutex;  // of what outlives a step; a step itself is used by its own thread
  int64_t limit_bytes = -1;
  budget::Fraction fraction;
  int64_t smallest_bytes = budget::kSmallest;
  int64_t next_smallest_bytes = budget::kSmallest;  // from the next step on
  int64_t steps = 0;
  budget::KnownSteps known;
  double trimmed_after_seconds = 0;  // of learning and planning, when the heap was last trimmed
  budget::ModuleTree modules;
  StepReport last;
  std::shared_ptr<const budget::Itinerary> last_plan;  // that the last step followed to its end, or null
  std::optional<BudgetError> refusal;
  std::string trouble;  // of planning, for the next report
  budget::RunRecord record;
  BlockReuse reuse;  // blocks are held from step to step
  bool waits_for_plans = waits_by_environment();

  /// Steps of a process run in turn. False: it is another's.
  static bool take_turn();
  static void end_turn();

  /// Begins a step for a budget that has this. `rehearsing` outlives the step; null for one that counts.
  static Step begin(const std::shared_ptr<Impl>& impl, budget::Rehearsing* rehearsing);

  /// ENCORE_WAIT_FOR_PLANS, unless it is 0: for tests.
  static bool waits_by_environment() {
    const char* waits = std::getenv("ENCORE_WAIT_FOR_PLANS");
    return waits != nullptr && std::string_view(waits) != "0";
  }

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
    last_plan.reset();
    refusal = error;
  }

  /// The limit of the next step, which for a fraction follows what was learnt. Returns the seconds that this took, as
  /// expect() does.
  double find_limit(int64_t resting) {
    constexpr std::chrono::milliseconds kPatience{20};
    const int64_t start_ns = now_ns();
    const bool changed = fraction.learn(resting, waits_for_plans ? Background<int>::kForever : kPatience);
    if (!fraction.trouble.empty()) {
      trouble = "the limit is by a sketch: " + std::exchange(fraction.trouble, {});
    }
    if (changed) {
      limit_bytes = fraction.limit_for(resting);
      return static_cast<double>(now_ns() - start_ns) * 1e-9;
    }
    return 0;
  }

  budget::StepSetting::AtTheEnd at_the_end() const {
    using AtTheEnd = budget::StepSetting::AtTheEnd;
    return !fraction.is_learnt()        ? AtTheEnd::kRefuse
           : fraction.refuses_nothing() ? AtTheEnd::kLearn
                                        : AtTheEnd::kLearnNewKinds;
  }

  /// Empty if there is a plan for such steps, or nothing is known of them yet.
  budget::StepSetting::Unplanned unplanned(const budget::KnownStep& step, int64_t limit, int64_t resting) const {
    const bool is_learnt = !fraction.is_learnt() || fraction.is_looked_at(step.model->signature());
    if (!is_learnt || !step.does_not_fit(limit)) {
      return {};
    }
    return {step.model, step.least_bytes, budget::text_of_unplanned(step, limit, resting)};
  }

  /// What is known before a step that may be as the last one was.
  double expect(budget::StepSetting& setting, int64_t limit, int64_t resting) {
    double planning_seconds = 0;
    if (budget::KnownStep* latest = known.latest()) {
      planning_seconds = known.prepare(*latest, limit, resting, waits_for_plans);
      if (!latest->trouble.empty()) {
        trouble = "no plan was searched for: " + std::exchange(latest->trouble, {});
      }
      setting.first = latest->plan;
      setting.is_routine = !setting.leaves_no_trace && (!fraction.is_learnt() || fraction.is_settled) &&
                           budget::KnownSteps::is_routine(*latest);
      setting.unplanned = unplanned(*latest, limit, resting);
    }
    setting.find_unplanned = [this, limit, resting](size_t index, uint64_t path) {
      const budget::KnownStep* step = known.find_unplanned(index, path, limit);
      return step != nullptr ? unplanned(*step, limit, resting) : budget::StepSetting::Unplanned{};
    };
    if (known.has_plans()) {
      setting.find = [this, limit, resting](size_t index, uint64_t path) {
        return known.find_plan(index, path, limit, resting);
      };
    }
    return planning_seconds;
  }
};

struct MemoryBudget::Step::Impl {
  Impl(std::shared_ptr<MemoryBudget::Impl> b, budget::StepSetting setting)
      : budget(std::move(b)),
        governor(std::make_shared<budget::StepGovernor>(std::move(setting))),
        open("step", [this](std::shared_ptr<store::Residency> residency, tape::OpId first,
                            const std::shared_ptr<region::ReplayRegion>&) {
          region::RegionOptions options;
          options.policy = keep_all();
          options.together = false;
          options.is_checkpoint = false;
          options.governor = governor;
          return std::make_shared<region::ReplayRegion>(std::move(residency), first, nullptr, std::move(options));
        }) {}

  void end() noexcept;
  void end_rehearsal(const budget::StepFigures& figures);
  budget::StepModel build_model() const;
  bool ran_plainly(const budget::StepFigures& figures) const;
  void learn(const budget::StepFigures& figures);
  void tell_plan(const budget::Itinerary& plan);
  void learn_plain_peak(const budget::StepFigures& figures);
  void put_back();
  void tell_trouble(std::string trouble) noexcept;
  void remember(const budget::StepFigures& figures);

  std::shared_ptr<MemoryBudget::Impl> budget;
  std::shared_ptr<budget::StepGovernor> governor;
  region::OpenRegion open;
  MemoryScope memory;
  StepReport report;
  double loss = report::kUnknown;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  int exceptions = std::uncaught_exceptions();
  bool abandoned = false;
  budget::Rehearsing* rehearsing = nullptr;
  budget::ModuleTrail trail;

  size_t ops_so_far() const {
    const std::lock_guard<RecursiveMutex> lock(open.tape().mutex());
    return open.tape().ops().size();
  }
};

}  // namespace encore
