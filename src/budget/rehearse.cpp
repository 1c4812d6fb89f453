// Steps that are run to be learnt, and leave no trace.
#include <algorithm>
#include <cstdio>

#include <torch/optim/optimizer.h>

#include <encore/bytes.h>
#include <encore/error.h>
#include <encore/plan/simulate.h>

#include "base/plain_numbers.h"
#include "budget/batch_search.h"
#include "budget/budget_impl.h"
#include "run/meter.h"

namespace encore {
namespace {

/// Of this thread, as far as is known who made them.
int64_t own_live_bytes() {
  run::Meter& meter = run::Meter::instance();
  return meter.live() - meter.live_of_other_threads(run::Meter::slot_of_this_thread());
}

/// What an optimizer keeps besides bytes of tensors: which ones, counts, learning rates.
class OptimizerThen {
 public:
  explicit OptimizerThen(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {
    for (const auto& [key, state] : optimizer.state()) {
      states_.emplace_back(key, state->clone());
    }
    for (const auto& group : optimizer.param_groups()) {
      options_.push_back(group.has_options() ? group.options().clone() : nullptr);
    }
  }

  void put_back() {
    optimizer_.state().clear();
    for (auto& [key, state] : states_) {
      optimizer_.state()[key] = std::move(state);
    }
    for (size_t i = 0; i < options_.size() && i < optimizer_.param_groups().size(); ++i) {
      if (options_[i]) {
        optimizer_.param_groups()[i].set_options(std::move(options_[i]));
      }
    }
  }

 private:
  using States = std::decay_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;

  torch::optim::Optimizer& optimizer_;
  std::vector<std::pair<States::key_type, States::mapped_type>> states_;
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options_;
};

/// Plans for one step, and what they foretell.
struct Outlook {
  StepForecast forecast;
  std::vector<plan::Plan> plans;
};

/// `limit_bytes`: -1 if there is none.
Outlook outlook_of(const plan::Graph& graph, int64_t resting_bytes, int64_t limit_bytes) {
  Outlook outlook;
  const plan::Baseline plain = plan::baseline(graph);
  outlook.forecast.resting_bytes = resting_bytes;
  outlook.forecast.plain_peak_bytes = plain.peak_bytes;
  outlook.forecast.plain_seconds = plain.time;
  const auto add = [&](plan::Plan plan) {
    if (plan.feasible) {
      outlook.plans.push_back(std::move(plan));
    }
  };
  const int64_t wanted = limit_bytes < 0 ? plain.peak_bytes : limit_bytes;
  auto plan = budget::KnownSteps::plan_for(graph, wanted, /*minimum=*/true);
  if (!plan) {
    return outlook;  // too many ops for a search
  }
  const int64_t least = plan->min_feasible_bytes;
  add(std::move(*plan));
  add(*budget::KnownSteps::plan_for(graph, least, /*minimum=*/false));
  // Only what there is a plan for is promised.
  for (const plan::Plan& made : outlook.plans) {
    StepForecast& forecast = outlook.forecast;
    forecast.least_bytes = forecast.least_bytes < 0 ? made.peak_bytes : std::min(forecast.least_bytes, made.peak_bytes);
    const bool fits = limit_bytes >= 0 && made.peak_bytes <= limit_bytes;
    if (fits && (forecast.predicted_seconds < 0 || made.time < forecast.predicted_seconds)) {
      forecast.predicted_seconds = made.time;
      forecast.predicted_peak_bytes = made.peak_bytes;
    }
  }
  return outlook;
}

std::string forecast_line(const char* name, const StepForecast& forecast) {
  const PlainNumbers plain;
  const auto bytes_of = [](int64_t bytes) { return bytes < 0 ? std::string("unknown") : format_bytes(bytes); };
  char text[512];
  std::snprintf(text, sizeof(text), "  %-12s  plain peak %s, least budget %s, resting %s", name,
                bytes_of(forecast.plain_peak_bytes).c_str(), bytes_of(forecast.least_bytes).c_str(),
                bytes_of(forecast.resting_bytes).c_str());
  std::string line = text;
  if (forecast.predicted_seconds >= 0) {
    std::snprintf(text, sizeof(text), "; in %.2f ms in place of %.2f ms, with a peak of %s",
                  forecast.predicted_seconds * 1e3, forecast.plain_seconds * 1e3,
                  bytes_of(forecast.predicted_peak_bytes).c_str());
    line += text;
  } else if (forecast.plain_seconds >= 0) {
    std::snprintf(text, sizeof(text), "; %.2f ms plainly", forecast.plain_seconds * 1e3);
    line += text;
  }
  return line + "\n";
}

void check_optimizers(const std::vector<torch::optim::Optimizer*>& optimizers) {
  if (std::any_of(optimizers.begin(), optimizers.end(), [](const auto* optimizer) { return optimizer == nullptr; })) {
    throw InvalidArgument("rehearse: an optimizer is null");
  }
}

}  // namespace

bool Rehearsed::fits() const {
  return limit_bytes >= 0 && first.predicted_peak_bytes >= 0 && later.predicted_peak_bytes >= 0;
}

std::string Rehearsed::text() const {
  std::string text = "rehearsed, the budget is " + (limit_bytes < 0 ? "not known" : format_bytes(limit_bytes)) +
                     (limit_bytes < 0 ? ""
                      : fits()        ? ", which it keeps"
                                      : ", for which no plan is known") +
                     "\n";
  text += forecast_line("first step", first);
  text += forecast_line("later steps", later);
  if (copied_bytes > 0) {
    text += "  put back      " + format_bytes(copied_bytes) + ", of which there were copies meanwhile\n";
  }
  if (left_bytes > 0) {
    text += "  left behind   " + format_bytes(left_bytes) + " of tensors that the step's own code holds\n";
  }
  return text;
}

/// One rehearsal after another, of which one may be kept.
struct MemoryBudget::Impl::Rehearser {
  /// How one went.
  struct Attempt {
    Rehearsed figures;
    std::optional<BudgetError> refusal;
    std::shared_ptr<const budget::StepModel> model;  // null: refused, or not to be planned
    std::vector<plan::Plan> plans;

    /// A step that can't be planned fits if it ran.
    bool fits() const { return !refusal && (!model || figures.fits()); }
    int64_t least_bytes() const { return std::max(figures.first.least_bytes, figures.later.least_bytes); }
  };

  std::shared_ptr<Impl> impl;
  const std::vector<torch::optim::Optimizer*>& optimizers;
  const std::function<void()>& put_back;

  /// Throws what the step throws, unless that is a refusal.
  Attempt attempt(const std::function<void()>& step) const;
  /// The next step of this kind is expected, and planned.
  void keep(Attempt attempt) const;

 private:
  budget::Rehearsing run(const std::function<void()>& step) const;
  void forecast(const budget::Rehearsing& shown, Attempt& attempt) const;
};

budget::Rehearsing MemoryBudget::Impl::Rehearser::run(const std::function<void()>& step) const {
  std::vector<OptimizerThen> then;
  then.reserve(optimizers.size());
  for (torch::optim::Optimizer* optimizer : optimizers) {
    then.emplace_back(*optimizer);
  }
  budget::Rehearsing rehearsing;
  rehearsing.put_back = [&] {
    std::for_each(then.begin(), then.end(), [](OptimizerThen& optimizer) { optimizer.put_back(); });
    if (put_back) {
      put_back();
    }
  };
  std::exception_ptr thrown;
  {
    Step scope = Impl::begin(impl, &rehearsing);
    for (torch::optim::Optimizer* optimizer : optimizers) {
      for (const auto& group : optimizer->param_groups()) {
        std::for_each(group.params().begin(), group.params().end(),
                      [&](const at::Tensor& leaf) { scope.impl_->governor->undo().keep_gradient(leaf); });
      }
    }
    try {
      step();
    } catch (...) {
      scope.abandon();
      thrown = std::current_exception();
    }
  }
  if (thrown && !rehearsing.refusal) {
    std::rethrow_exception(thrown);
  }
  if (rehearsing.failure) {
    std::rethrow_exception(rehearsing.failure);
  }
  return rehearsing;
}

MemoryBudget::Impl::Rehearser::Attempt MemoryBudget::Impl::Rehearser::attempt(const std::function<void()>& step) const {
  const int64_t live_before = own_live_bytes();
  const budget::Rehearsing shown = run(step);
  Attempt attempt;
  attempt.refusal = shown.refusal;
  attempt.figures.copied_bytes = shown.copied_bytes;
  attempt.figures.rehearsal_seconds = shown.seconds;
  attempt.figures.left_bytes = std::max<int64_t>(0, own_live_bytes() - live_before);
  if (shown.parameters_written > 0 && attempt.figures.left_bytes > 0 && optimizers.empty() && !put_back) {
    throw InvalidArgument("rehearse: the step wrote to " + std::to_string(shown.parameters_written) +
                          " parameters, which are as they were, and left " + format_bytes(attempt.figures.left_bytes) +
                          " behind: if an optimizer did, its own state is not as it was. Pass it: rehearse(step, "
                          "{&optimizer})");
  }
  if (!attempt.refusal) {
    forecast(shown, attempt);
  }
  return attempt;
}

void MemoryBudget::Impl::Rehearser::forecast(const budget::Rehearsing& shown, Attempt& attempt) const {
  const std::lock_guard<std::mutex> lock(impl->mutex);
  attempt.model = shown.model;
  if (shown.model && impl->fraction.is_learnt()) {
    impl->fraction.rehearsed(*shown.model, shown.resting_bytes);
    impl->limit_bytes = impl->fraction.limit_for(shown.resting_bytes);
  }
  Rehearsed& figures = attempt.figures;
  figures.limit_bytes = impl->limit_bytes;
  if (shown.model) {
    const int64_t resting_later = shown.resting_bytes + shown.model->born_bytes();
    Outlook first = outlook_of(shown.model->graph_for(shown.resting_bytes), shown.resting_bytes, impl->limit_bytes);
    figures.first = first.forecast;
    attempt.plans = std::move(first.plans);
    // For a fraction the limit moves with what rests.
    const int64_t limit_later =
        impl->fraction.is_learnt() ? impl->fraction.limit_for(resting_later) : impl->limit_bytes;
    figures.later = outlook_of(shown.model->graph_for(resting_later), resting_later, limit_later).forecast;
  }
  figures.first.resting_bytes = shown.resting_bytes;
  if (shown.ran_plainly) {
    figures.first.plain_peak_bytes = shown.peak_bytes;
  } else if (!shown.model) {
    figures.first.plain_peak_bytes = shown.seen_plain_bytes;
  }
}

void MemoryBudget::Impl::Rehearser::keep(Attempt attempt) const {
  // A step that another thread has begun meanwhile looks for plans among those that are known.
  if (attempt.model && take_turn()) {
    const std::lock_guard<std::mutex> lock(impl->mutex);
    impl->known.rehearsed(*attempt.model, std::move(attempt.plans), impl->limit_bytes,
                          attempt.figures.first.resting_bytes);
    end_turn();
  }
}

Rehearsed MemoryBudget::rehearse(const std::function<void()>& step,
                                 const std::vector<torch::optim::Optimizer*>& optimizers,
                                 const std::function<void()>& put_back) {
  check_optimizers(optimizers);
  const Impl::Rehearser rehearser{impl_, optimizers, put_back};
  Impl::Rehearser::Attempt attempt = rehearser.attempt(step);
  if (attempt.refusal) {
    throw BudgetError(*attempt.refusal);
  }
  Rehearsed figures = attempt.figures;
  rehearser.keep(std::move(attempt));
  return figures;
}

LargestBatch MemoryBudget::largest_batch(const std::function<void(int64_t)>& step, int64_t low, int64_t high,
                                         const std::vector<torch::optim::Optimizer*>& optimizers,
                                         const std::function<void()>& put_back) {
  check_optimizers(optimizers);
  if (low < 1 || high < low) {
    throw InvalidArgument("largest_batch: from " + std::to_string(low) + " to " + std::to_string(high) +
                          "; state a range of batch sizes above 0");
  }
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex);
    if (impl_->fraction.is_learnt()) {
      throw InvalidArgument("largest_batch: the limit follows from what steps need; state it in bytes");
    }
  }
  const Impl::Rehearser rehearser{impl_, optimizers, put_back};
  LargestBatch answer;
  const auto attempt_of = [&](int64_t batch) {
    ++answer.rehearsals;
    return rehearser.attempt([&] { step(batch); });
  };
  Impl::Rehearser::Attempt best = attempt_of(low);
  if (!best.fits()) {
    if (best.refusal) {
      throw BudgetError(*best.refusal);
    }
    budget::refuse_batch(low, best.least_bytes(), best.figures.limit_bytes);
  }
  budget::BatchSearch search(low, high, best.figures.limit_bytes, best.least_bytes());
  while (const auto batch = search.next()) {
    Impl::Rehearser::Attempt attempt = attempt_of(*batch);
    search.tried(*batch, attempt.fits(), attempt.refusal ? -1 : attempt.least_bytes());
    if (attempt.fits()) {
      best = std::move(attempt);
    }
  }
  answer.batch = search.largest();
  answer.forecast = best.figures;
  rehearser.keep(std::move(best));
  return answer;
}

}  // namespace encore
