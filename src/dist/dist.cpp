// DataParallel and its steps.
#include "dist/parallel.h"
#include "dist/step_then.h"

namespace encore {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

dist::Failure failure_of(const BudgetError& error) {
  dist::Failure failure;
  failure.kind = dist::FailureKind::kBudget;
  failure.figures = error.figures();
  failure.text = error.what();
  failure.parameters_differ = error.figures().parameters_written > 0;
  return failure;
}

}  // namespace

struct DataParallel::Step::Impl {
  Impl(std::shared_ptr<DataParallel::Impl> of, MemoryBudget* with)
      : parallel(std::move(of)), then(parallel->reduction.layout().buffers) {
    if (with != nullptr) {
      budget = *with;
    }
  }

  /// Makes the slots, then asks the budget, then all ranks. Throws on all or on none.
  void begin();
  void end() noexcept;
  void take_figures(double waited) noexcept;

  std::shared_ptr<DataParallel::Impl> parallel;
  std::optional<MemoryBudget> budget;
  std::optional<MemoryBudget::Step> step;
  dist::StepThen then;
  int exceptions = std::uncaught_exceptions();
  Clock::time_point start = Clock::now();
  int64_t waited_before = 0;
};

void DataParallel::Step::Impl::begin() {
  dist::Reduction& reduction = parallel->reduction;
  dist::Failure mine = reduction.take_untold();
  try {
    // Before the budget's step, so that they rest in what it plans with.
    reduction.make_slots();
    if (budget && mine.kind == dist::FailureKind::kNone) {
      step.emplace(budget->step());
    }
  } catch (const BudgetError& error) {
    mine = failure_of(error);
  } catch (const std::exception& error) {
    mine.kind = dist::FailureKind::kThrew;
    mine.text = error.what();
  }
  waited_before = reduction.channel().waiting_ns();
  try {
    std::vector<int64_t> numbers = mine.numbers();
    numbers.push_back(reduction.suspended() ? 0 : 1);
    const auto rows = reduction.channel().exchange(numbers, "beginning a step");
    dist::judge(reduction.channel(), rows, mine, "beginning a step");
    for (size_t rank = 1; rank < rows.size(); ++rank) {
      if (rows[rank].back() != rows[0].back()) {
        throw ScopeError("dist: rank " + std::to_string(rank) + (rows[0].back() != 0 ? " is" : " is not") +
                         " under no_sync() when the step begins, unlike rank 0");
      }
    }
    reduction.begin_step(numbers.back() != 0);
  } catch (...) {
    step.reset();
    reduction.free_slots();
    throw;
  }
}

void DataParallel::Step::Impl::end() noexcept {
  dist::Failure failure;
  const bool threw = std::uncaught_exceptions() > exceptions;
  // The budget's step ends first: what is told to the others needs memory.
  step.reset();
  if (budget && budget->report().refused && budget->refusal()) {
    failure = failure_of(*budget->refusal());
  } else if (threw) {
    failure.kind = dist::FailureKind::kThrew;
    failure.text = "an exception left its step";
  }
  dist::Reduction& reduction = parallel->reduction;
  if (!reduction.end_step(std::move(failure)) || threw) {
    ++parallel->row.failed_steps;
    then.put_back();
    reduction.drop_gradients();
  }
  take_figures(static_cast<double>(reduction.channel().waiting_ns() - waited_before) * 1e-9);
  parallel->step_is_open = false;
}

void DataParallel::Step::Impl::take_figures(double waited) noexcept {
  RankRow& row = parallel->row;
  ++row.steps;
  row.step_seconds += seconds_since(start);
  row.waiting_seconds += waited;
  if (budget) {
    const StepReport report = budget->report();
    row.limit_bytes = report.limit_bytes;
    row.peak_bytes = std::max(row.peak_bytes, report.peak_bytes);
    row.predicted_bytes = std::max(row.predicted_bytes, report.predicted_peak_bytes);
    row.process_bytes = std::max(row.process_bytes, report.process_peak_bytes);
  }
}

DataParallel::Step::Step(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DataParallel::Step::Step(Step&&) noexcept = default;
DataParallel::Step::~Step() {
  if (impl_) {
    impl_->end();
  }
}

void DataParallel::Step::set_loss(double loss) {
  if (impl_->step) {
    impl_->step->set_loss(loss);
  }
}

DataParallel::DataParallel(const torch::nn::Module& model, RankGroup group, const DataParallelOptions& options) {
  if (options.bucket_bytes < 1 || options.in_flight < 1) {
    throw InvalidArgument("dist: buckets of " + std::to_string(options.bucket_bytes) + " bytes, " +
                          std::to_string(options.in_flight) + " in flight; both must be 1 at least");
  }
  impl_ = std::make_shared<Impl>(dist::layout_of(model, options.bucket_bytes), group.impl_, options);
}

DataParallel::Step DataParallel::step() {
  return begin_step(nullptr);
}

DataParallel::Step DataParallel::step(MemoryBudget& budget) {
  return begin_step(&budget);
}

DataParallel::Step DataParallel::begin_step(MemoryBudget* budget) {
  if (impl_->step_is_open) {
    throw ScopeError("dist: a step of this model is open already");
  }
  auto step = std::make_unique<Step::Impl>(impl_, budget);
  step->begin();
  impl_->step_is_open = true;
  return Step(std::move(step));
}

DataParallel::NoSync::NoSync(std::shared_ptr<void> impl) : impl_(std::move(impl)) {}
DataParallel::NoSync::NoSync(NoSync&&) noexcept = default;
DataParallel::NoSync::~NoSync() = default;

DataParallel::NoSync DataParallel::no_sync() {
  impl_->reduction.suspend(1);
  // The shared pointer's deleter, not its memory, is what is wanted.
  return NoSync(std::shared_ptr<void>(nullptr, [impl = impl_](void*) { impl->reduction.suspend(-1); }));
}

void DataParallel::broadcast(int from) {
  if (from < 0 || from >= impl_->group->size) {
    throw InvalidArgument("dist: broadcast from rank " + std::to_string(from) + " of " +
                          std::to_string(impl_->group->size));
  }
  impl_->reduction.broadcast_all(from);
}

RankGroup DataParallel::group() const {
  return RankGroup(impl_->group);
}

std::vector<std::vector<std::string>> DataParallel::buckets() const {
  std::vector<std::vector<std::string>> names;
  const dist::Layout& layout = impl_->reduction.layout();
  for (const dist::Bucket& bucket : layout.buckets) {
    names.emplace_back();
    for (const size_t i : bucket.parameters) {
      names.back().push_back(layout.parameters[i].name);
    }
  }
  return names;
}

int64_t DataParallel::slot_bytes() const {
  return impl_->reduction.slot_bytes();
}

int64_t DataParallel::scratch_bytes() const {
  return impl_->reduction.scratch_bytes();
}

RanksReport DataParallel::report() {
  const RankRow& mine = impl_->row;
  dist::Channel& channel = impl_->reduction.channel();
  const auto in_us = [](double seconds) { return static_cast<int64_t>(seconds * 1e6); };
  const auto rows =
      channel.exchange({mine.steps, mine.failed_steps, mine.limit_bytes, mine.peak_bytes, mine.predicted_bytes,
                        mine.process_bytes, in_us(mine.step_seconds), in_us(mine.waiting_seconds),
                        impl_->reduction.reduced_backwards(), channel.sent_bytes()},
                       "the report of all ranks");
  RanksReport report;
  for (const auto& row : rows) {
    RankRow rank;
    rank.steps = row[0];
    rank.failed_steps = row[1];
    rank.limit_bytes = row[2];
    rank.peak_bytes = row[3];
    rank.predicted_bytes = row[4];
    rank.process_bytes = row[5];
    rank.step_seconds = static_cast<double>(row[6]) * 1e-6;
    rank.waiting_seconds = static_cast<double>(row[7]) * 1e-6;
    rank.reduced_backwards = row[8];
    rank.sent_bytes = row[9];
    report.ranks.push_back(rank);
  }
  return report;
}

}  // namespace encore
