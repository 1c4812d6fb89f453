// Checkpointed calls and scopes.
#include <torch/csrc/autograd/python_variable.h>

#include <encore/bytes.h>
#include <encore/checkpoint.h>
#include <encore/segments.h>
#include <encore/sequential.h>

#include "python/bindings.h"

namespace encore::python {
namespace {

std::vector<at::Tensor> tensors_of(const py::list& list) {
  std::vector<at::Tensor> tensors;
  for (const py::handle item : list) {
    tensors.push_back(THPVariable_Unpack(item.ptr()));
  }
  return tensors;
}

/// `again(tensors)` calls the function with other tensors in place of its inputs.
detail::CheckpointCall::Again caller_of(const py::function& again) {
  const auto held = shared_object(again);
  return [held](const std::vector<at::Tensor>& tensors) {
    const py::gil_scoped_acquire gil;
    note_cause(py::object());
    py::list inputs;
    for (const at::Tensor& tensor : tensors) {
      inputs.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)));
    }
    try {
      (*held)(inputs);
    } catch (py::error_already_set& error) {
      note_cause(error.value());
      throw;
    }
  };
}

/// One call of a checkpointed function. It ends here, not in Python, where an interrupt may come before any line.
class Call {
 public:
  explicit Call(const CheckpointOptions& options) {
    const py::gil_scoped_release no_gil;
    call_ = std::make_unique<detail::CheckpointCall>(options, nullptr);
  }
  Call(const CheckpointOptions& options, const py::list& inputs, const py::function& again) {
    const std::vector<at::Tensor> tensors = tensors_of(inputs);
    auto caller = caller_of(again);
    CheckpointOptions own = options;
    own.early_stop = false;  // stopping is a C++ exception, which must not pass the interpreter's frames
    const py::gil_scoped_release no_gil;
    call_ = std::make_unique<detail::CheckpointCall>(own, tensors, std::move(caller));
  }
  py::object run(const py::function& function, const py::tuple& arguments, const py::dict& keywords) {
    const Ended ended{call_};
    py::object result = function(*arguments, **keywords);
    finish();
    return result;
  }

 private:
  /// Whatever the case.
  struct Ended {
    std::unique_ptr<detail::CheckpointCall>& call;
    ~Ended() {
      const py::gil_scoped_release no_gil;
      call.reset();
    }
  };

  void finish() {
    detail::Seen results;
    results.unknown = 1;  // Python's own says nothing about results without a gradient either
    const py::gil_scoped_release no_gil;
    call_->finish(results);
  }

  std::unique_ptr<detail::CheckpointCall> call_;
};

/// A scope that is open, or over and still asked for its figures.
class OpenScope {
 public:
  OpenScope(const Policy& policy, std::string name) : scope_(std::make_unique<Scope>(policy, std::move(name))) {}
  OpenScope(const std::vector<std::pair<int64_t, int64_t>>& segments, std::string name) {
    CheckpointConfig config;
    for (const auto& [start, end] : segments) {
      config.segments.push_back({start, end});
    }
    scope_ = std::make_unique<Scope>(config, std::move(name));
  }
  /// Again: nothing.
  void end(bool failed) {
    if (!scope_ || ended_) {
      return;
    }
    ended_ = true;
    if (failed) {
      last_ = scope_->stats();
      dump_ = scope_->dump();
      scope_.reset();
    } else {
      scope_->end();
    }
  }
  ScopeStats stats() const { return scope_ ? scope_->stats() : last_; }
  std::string dump() const { return scope_ ? scope_->dump() : dump_; }

 private:
  std::unique_ptr<Scope> scope_;
  bool ended_ = false;
  ScopeStats last_;
  std::string dump_;
};

void bind_options(py::module_& module) {
  py::enum_<Recompute>(module, "Recompute", "How values are brought back.")
      .value("REPLAY", Recompute::kReplay, "run the recorded ops again, below autograd; the function is called once")
      .value("RERUN", Recompute::kRerun, "call the function again: for work that ATen can't see");
  py::enum_<DeterminismCheck>(module, "DeterminismCheck", "How hard to check that what comes back is what was there.")
      .value("NONE", DeterminismCheck::kNone)
      .value("METADATA", DeterminismCheck::kMetadata)
      .value("VALUES", DeterminismCheck::kValues);
  py::class_<CheckpointOptions>(module, "CheckpointOptions", "How a function is checkpointed.")
      .def(py::init([](std::string name, Recompute recompute, bool preserve_rng_state, DeterminismCheck check,
                       const std::optional<Policy>& policy) {
             CheckpointOptions options;
             options.name = std::move(name);
             options.recompute = recompute;
             options.preserve_rng_state = preserve_rng_state;
             options.determinism_check = check;
             options.policy = policy.value_or(options.policy);
             return options;
           }),
           py::kw_only(), py::arg("name") = "", py::arg("recompute") = Recompute::kReplay,
           py::arg("preserve_rng_state") = true, py::arg("determinism_check") = DeterminismCheck::kMetadata,
           py::arg("policy") = py::none())
      .def_readwrite("name", &CheckpointOptions::name)
      .def_readwrite("recompute", &CheckpointOptions::recompute)
      .def_readwrite("preserve_rng_state", &CheckpointOptions::preserve_rng_state)
      .def_readwrite("determinism_check", &CheckpointOptions::determinism_check)
      .def_readwrite("policy", &CheckpointOptions::policy)
      .def("__copy__", [](const CheckpointOptions& options) { return options; })
      .def("__repr__", [](const py::object& self) {
        return py::str("CheckpointOptions(name={!r}, recompute={}, preserve_rng_state={}, determinism_check={})")
            .format(self.attr("name"), self.attr("recompute"), self.attr("preserve_rng_state"),
                    self.attr("determinism_check"));
      });
}

void bind_scope(py::module_& module) {
  py::class_<ScopeStats>(module, "ScopeStats", "What a scope has done so far.")
      .def_readonly("ops_recorded", &ScopeStats::ops_recorded)
      .def_readonly("values_kept", &ScopeStats::values_kept)
      .def_readonly("bytes_kept", &ScopeStats::bytes_kept)
      .def_readonly("values_dropped", &ScopeStats::values_dropped)
      .def_readonly("bytes_dropped", &ScopeStats::bytes_dropped)
      .def_readonly("bytes_packed", &ScopeStats::bytes_packed)
      .def_readonly("replays", &ScopeStats::replays)
      .def_readonly("ops_replayed", &ScopeStats::ops_replayed)
      .def_readonly("replay_ns", &ScopeStats::replay_ns)
      .def_readonly("marked_but_kept", &ScopeStats::marked_but_kept)
      .def("__repr__", [](const ScopeStats& stats) {
        return py::str("ScopeStats: {} ops recorded, {} values kept ({}), {} dropped ({}), {} ops replayed")
            .format(stats.ops_recorded, stats.values_kept, format_bytes(stats.bytes_kept), stats.values_dropped,
                    format_bytes(stats.bytes_dropped), stats.ops_replayed);
      });
  py::class_<OpenScope>(module, "OpenScope")
      .def(py::init<const Policy&, std::string>(), NoGil(), py::arg("policy"), py::arg("name"))
      .def(py::init<const std::vector<std::pair<int64_t, int64_t>>&, std::string>(), NoGil(), py::arg("segments"),
           py::arg("name"))
      .def("end", &OpenScope::end, NoGil(), py::arg("failed"))
      .def("stats", &OpenScope::stats, NoGil())
      .def("dump", &OpenScope::dump, NoGil());
}

}  // namespace

void bind_checkpoints(py::module_& module) {
  bind_options(module);
  bind_scope(module);
  py::class_<Call>(module, "Call")
      .def(py::init<const CheckpointOptions&>(), py::arg("options"))
      .def(py::init<const CheckpointOptions&, const py::list&, const py::function&>(), py::arg("options"),
           py::arg("inputs"), py::arg("again"))
      .def("run", &Call::run, py::arg("function"), py::arg("arguments"), py::arg("keywords"));
  module.def("is_worth_recording", &detail::is_worth_recording, NoGil(), py::arg("options"));
  module.def(
      "mark", [](const at::Tensor& tensor, int64_t threshold_bytes) { adaptive_checkpoint(tensor, threshold_bytes); },
      NoGil(), py::arg("tensor"), py::arg("threshold_bytes"));
  module.def("balanced_segments", py::overload_cast<int64_t, int64_t>(&balanced_segments), py::arg("layers"),
             py::arg("segments"));
}

}  // namespace encore::python
