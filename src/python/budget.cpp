// Budgets, their steps and reports.
#include <encore/budget.h>

#include <torch/optim/sgd.h>

#include "python/bindings.h"

namespace encore::python {
namespace {

/// A step that is open until it is ended, on its own thread.
class OpenStep {
 public:
  explicit OpenStep(MemoryBudget::Step step) : step_(std::make_unique<MemoryBudget::Step>(std::move(step))) {}

  void end(bool failed) {
    if (step_ && failed) {
      step_->abandon();
    }
    step_.reset();
  }
  void set_loss(double loss) { step().set_loss(loss); }
  void enter_module(const std::string& name) { step().enter_module(name); }
  void leave_module() { step().leave_module(); }

 private:
  MemoryBudget::Step& step() {
    if (!step_) {
      throw ScopeError("step: ended already");
    }
    return *step_;
  }
  std::unique_ptr<MemoryBudget::Step> step_;
};

void bind_reports(py::module_& module) {
  py::class_<ValueReport>(module, "ValueReport", "What became of the values that one op made.")
      .def_readonly("name", &ValueReport::name)
      .def_readonly("module", &ValueReport::module)
      .def_readonly("bytes", &ValueReport::bytes)
      .def_readonly("action", &ValueReport::action)
      .def_readonly("why", &ValueReport::why)
      .def_readonly("seconds", &ValueReport::seconds)
      .def_readonly("times", &ValueReport::times);
  py::enum_<StepMode>(module, "StepMode", "How a step ran.")
      .value("LEARNING", StepMode::kLearning, "without a limit, to learn the plain peak")
      .value("ONLINE", StepMode::kOnline, "recorded, values evicted by price where needed")
      .value("PLANNED", StepMode::kPlanned, "along a plan to its end");
  py::class_<StepReport>(module, "StepReport", "One training step. str() has it all on one screen.", py::dynamic_attr())
      .def_readonly("step", &StepReport::step)
      .def_readonly("signature", &StepReport::signature)
      .def_readonly("mode", &StepReport::mode)
      .def_readonly("note", &StepReport::note)
      .def_readonly("routine", &StepReport::routine)
      .def_readonly("failed", &StepReport::failed)
      .def_readonly("refused", &StepReport::refused)
      .def_readonly("limit_bytes", &StepReport::limit_bytes)
      .def_readonly("resting_bytes", &StepReport::resting_bytes)
      .def_readonly("peak_bytes", &StepReport::peak_bytes)
      .def_readonly("predicted_peak_bytes", &StepReport::predicted_peak_bytes)
      .def_readonly("plain_peak_bytes", &StepReport::plain_peak_bytes)
      .def_readonly("foreign_bytes", &StepReport::foreign_bytes)
      .def_readonly("process_bytes", &StepReport::process_bytes)
      .def_readonly("process_peak_bytes", &StepReport::process_peak_bytes)
      .def_readonly("book_bytes", &StepReport::book_bytes)
      .def_readonly("held", &StepReport::held)
      .def_readonly("step_seconds", &StepReport::step_seconds)
      .def_readonly("predicted_seconds", &StepReport::predicted_seconds)
      .def_readonly("plain_seconds", &StepReport::plain_seconds)
      .def_readonly("replay_seconds", &StepReport::replay_seconds)
      .def_readonly("planning_seconds", &StepReport::planning_seconds)
      .def_readonly("eviction_seconds", &StepReport::eviction_seconds)
      .def_readonly("kinds_seen", &StepReport::kinds_seen)
      .def_readonly("kinds_known", &StepReport::kinds_known)
      .def_readonly("training_seconds", &StepReport::training_seconds)
      .def_readonly("learning_seconds", &StepReport::learning_seconds)
      .def_readonly("ops_recorded", &StepReport::ops_recorded)
      .def_readonly("ops_replayed", &StepReport::ops_replayed)
      .def_readonly("evictions", &StepReport::evictions)
      .def_readonly("values_kept", &StepReport::values_kept)
      .def_readonly("values_packed", &StepReport::values_packed)
      .def_readonly("values_dropped", &StepReport::values_dropped)
      .def_readonly("values", &StepReport::values)
      .def("__str__", &StepReport::text)
      .def("__repr__", &StepReport::text);
}

/// Python's optimizers are put back by Python, and their gradients as those of an optimizer in C++, which is never
/// stepped.
class Gradients {
 public:
  explicit Gradients(std::vector<at::Tensor> leaves) {
    if (!leaves.empty()) {
      holder_ = std::make_unique<torch::optim::SGD>(std::move(leaves), torch::optim::SGDOptions(1));
    }
  }
  std::vector<torch::optim::Optimizer*> optimizers() const {
    return holder_ ? std::vector<torch::optim::Optimizer*>{holder_.get()} : std::vector<torch::optim::Optimizer*>();
  }

 private:
  std::unique_ptr<torch::optim::SGD> holder_;
};

Rehearsed rehearse(MemoryBudget& budget, const py::function& step, const std::vector<at::Tensor>& leaves,
                   const py::function& put_back) {
  const auto call = [](const py::function& function) {
    const py::gil_scoped_acquire gil;
    function();
  };
  const Gradients gradients(leaves);
  const py::gil_scoped_release no_gil;
  return budget.rehearse([&] { call(step); }, gradients.optimizers(), [&] { call(put_back); });
}

LargestBatch largest_batch(MemoryBudget& budget, const py::function& step, int64_t low, int64_t high,
                           const std::vector<at::Tensor>& leaves, const py::function& put_back) {
  const Gradients gradients(leaves);
  const py::gil_scoped_release no_gil;
  const auto call_step = [&](int64_t batch) {
    const py::gil_scoped_acquire gil;
    step(batch);
  };
  const auto call_put_back = [&] {
    const py::gil_scoped_acquire gil;
    put_back();
  };
  return budget.largest_batch(call_step, low, high, gradients.optimizers(), call_put_back);
}

void bind_rehearsals(py::module_& module) {
  py::class_<StepForecast>(module, "StepForecast", "What a step will need; -1 where that is not known.")
      .def_readonly("resting_bytes", &StepForecast::resting_bytes)
      .def_readonly("plain_peak_bytes", &StepForecast::plain_peak_bytes)
      .def_readonly("least_bytes", &StepForecast::least_bytes)
      .def_readonly("plain_seconds", &StepForecast::plain_seconds)
      .def_readonly("predicted_peak_bytes", &StepForecast::predicted_peak_bytes)
      .def_readonly("predicted_seconds", &StepForecast::predicted_seconds);
  py::class_<Rehearsed>(module, "Rehearsed", "What a rehearsal shows. str() has it all on one screen.")
      .def_readonly("first", &Rehearsed::first)
      .def_readonly("later", &Rehearsed::later)
      .def_readonly("limit_bytes", &Rehearsed::limit_bytes)
      .def_readonly("copied_bytes", &Rehearsed::copied_bytes)
      .def_readonly("left_bytes", &Rehearsed::left_bytes)
      .def_readonly("rehearsal_seconds", &Rehearsed::rehearsal_seconds)
      .def_property_readonly("fits", &Rehearsed::fits)
      .def("__str__", &Rehearsed::text)
      .def("__repr__", &Rehearsed::text);
  py::class_<LargestBatch>(module, "LargestBatch", "The largest batch that fits.")
      .def_readonly("batch", &LargestBatch::batch)
      .def_readonly("forecast", &LargestBatch::forecast)
      .def_readonly("rehearsals", &LargestBatch::rehearsals);
}

}  // namespace

void bind_budget(py::module_& module) {
  bind_reports(module);
  bind_rehearsals(module);
  py::class_<OpenStep>(module, "OpenStep")
      .def("end", &OpenStep::end, NoGil(), py::arg("failed"))
      .def("set_loss", &OpenStep::set_loss, NoGil(), py::arg("loss"))
      .def("enter_module", &OpenStep::enter_module, NoGil(), py::arg("name"))
      .def("leave_module", &OpenStep::leave_module, NoGil());
  py::class_<MemoryBudget>(module, "Budget")
      .def(py::init<int64_t>(), NoGil(), py::arg("limit_bytes"))
      .def(py::init([](const std::string& limit) { return MemoryBudget(std::string_view(limit)); }), NoGil(),
           py::arg("limit"))
      .def_static("fraction", &MemoryBudget::fraction, NoGil(), py::arg("part"))
      .def_static("slowdown", &MemoryBudget::slowdown, NoGil(), py::arg("factor"))
      .def_static("least", &MemoryBudget::least, NoGil())
      .def(
          "step", [](MemoryBudget& budget) { return std::make_unique<OpenStep>(budget.step()); }, NoGil())
      .def(
          "set_limit", [](MemoryBudget& budget, int64_t bytes) { budget.set_limit(bytes); }, NoGil())
      .def(
          "set_limit",
          [](MemoryBudget& budget, const std::string& limit) { budget.set_limit(std::string_view(limit)); }, NoGil())
      .def("rehearse", &rehearse, py::arg("step"), py::arg("leaves"), py::arg("put_back"))
      .def("largest_batch", &largest_batch, py::arg("step"), py::arg("low"), py::arg("high"), py::arg("leaves"),
           py::arg("put_back"))
      .def("limit_bytes", &MemoryBudget::limit_bytes, NoGil())
      .def("leave_alone_below", &MemoryBudget::leave_alone_below, NoGil(), py::arg("bytes"))
      .def("wait_for_plans", &MemoryBudget::wait_for_plans, NoGil(), py::arg("wait"))
      .def("report", &MemoryBudget::report, NoGil())
      .def("graph_json", &MemoryBudget::graph_json, NoGil())
      .def(
          "raise_refusal",
          [](const MemoryBudget& budget) {
            if (const auto refusal = budget.refusal()) {
              throw BudgetError(*refusal);
            }
          },
          NoGil())
      .def(
          "run_json", [](const MemoryBudget& budget, const std::string& name) { return budget.run_json(name); },
          NoGil(), py::arg("name"))
      .def(
          "run_html", [](const MemoryBudget& budget, const std::string& name) { return budget.run_html(name); },
          NoGil(), py::arg("name"));
}

}  // namespace encore::python
