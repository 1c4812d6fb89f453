// The module encore._core.
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <encore/bytes.h>
#include <encore/version.h>

#include "host/host.h"
#include "python/bindings.h"
#include "record/saving_hooks.h"
#include "run/meter.h"

namespace encore::python {
namespace {

/// A child of a process with an open step or scope has a copy of it, which is none of its business: a data loader's
/// worker would be recorded, and held to what the parent had left of its limit.
void forget_in_child() {
  host::forget_in_child();
  run::forget_limit();
}

/// `run_backward`, Python's own, announced before it begins. Its end is seen here, not in Python, where an interrupt
/// may come before any line.
py::object announced(const py::function& run_backward, const py::tuple& arguments, const py::dict& keywords,
                     const std::vector<at::Tensor>& tensors, bool create_graph, bool accumulate_grad) {
  torch::autograd::edge_list roots;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.requires_grad()) {
      roots.push_back(torch::autograd::impl::gradient_edge(tensor));
    }
  }
  struct Run {
    std::unique_ptr<record::BackwardRun> announced;
    ~Run() {
      const py::gil_scoped_release no_gil;
      announced.reset();
    }
  } run;
  {
    const py::gil_scoped_release no_gil;
    run.announced = host::begin_backward(roots, create_graph, accumulate_grad);
  }
  return run_backward(*arguments, **keywords);
}

}  // namespace
}  // namespace encore::python

PYBIND11_MODULE(_core, module) {
  using namespace encore;
  using namespace encore::python;
  module.doc() = "The C++ side of the package encore, which is what to use.";
  module.attr("version") = ENCORE_VERSION;
  module.attr("torch_version") = TORCH_VERSION;  // that it was built for
  install_host(py::module_::import("encore._errors"));
  module.def("ensure_engine", &host::ensure_engine, NoGil());
  module.def("announced", &announced, py::arg("run_backward"), py::arg("arguments"), py::arg("keywords"),
             py::arg("tensors"), py::arg("create_graph"), py::arg("accumulate_grad"));
  module.def("forget_in_child", &forget_in_child, NoGil());
  module.def("hand_out", &host::hand_out, NoGil(), py::arg("tensor"));
  module.def("compiled_regions", &record::compiled_regions, NoGil());
  module.def("parse_bytes", &parse_bytes, py::arg("text"));
  module.def("format_bytes", &format_bytes, py::arg("bytes"));
  bind_policies(module);
  bind_checkpoints(module);
  bind_memory(module);
  bind_budget(module);
  bind_profiler(module);
  bind_with_blocks(module);
}
