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
  run::Meter::instance().set_limit(0, nullptr);
}

/// A backward that Python is about to run, until it is ended, on its thread.
class Backward {
 public:
  Backward(const std::vector<at::Tensor>& tensors, bool create_graph, bool accumulate_grad) {
    torch::autograd::edge_list roots;
    for (const at::Tensor& tensor : tensors) {
      if (tensor.requires_grad()) {
        roots.push_back(torch::autograd::impl::gradient_edge(tensor));
      }
    }
    run_ = host::begin_backward(roots, create_graph, accumulate_grad);
  }
  void end() { run_.reset(); }

 private:
  std::unique_ptr<record::BackwardRun> run_;
};

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
  py::class_<Backward>(module, "Backward")
      .def(py::init<const std::vector<at::Tensor>&, bool, bool>(), NoGil(), py::arg("tensors"), py::arg("create_graph"),
           py::arg("accumulate_grad"))
      .def("end", &Backward::end, NoGil());
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
}
