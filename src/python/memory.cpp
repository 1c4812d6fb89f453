// Bytes of tensors, and reuse of freed blocks.
#include <encore/memory.h>

#include "python/bindings.h"

namespace encore::python {
namespace {

int64_t live_bytes() {
  return live_tensor_bytes();
}
int64_t peak_bytes() {
  return peak_tensor_bytes();
}
void reset_peak() {
  reset_peak_tensor_bytes();
}

/// A property's own extras do not reach its getter: pybind11 2 drops a call_guard there without a word, 3 refuses it.
py::cpp_function without_gil(int64_t (MemoryScope::*getter)() const) {
  return py::cpp_function(getter, NoGil());
}

}  // namespace

void bind_memory(py::module_& module) {
  module.def("live_tensor_bytes", &live_bytes, NoGil(),
             "Bytes of all live CPU tensors that LibTorch's allocator made.");
  module.def("peak_tensor_bytes", &peak_bytes, NoGil(),
             "The most that live_tensor_bytes() has been since the first call, or the last reset.");
  module.def("reset_peak_tensor_bytes", &reset_peak, NoGil());
  py::class_<MemoryScope>(module, "MemoryCount")
      .def(py::init<>(), NoGil())
      .def_property_readonly("start_bytes", without_gil(&MemoryScope::start_bytes))
      .def_property_readonly("peak_bytes", without_gil(&MemoryScope::peak_bytes))
      .def_property_readonly("peak_growth_bytes", without_gil(&MemoryScope::peak_growth_bytes));
  py::class_<BlockReuse>(module, "Reuse").def(py::init<>(), NoGil());
  module.def("held_bytes", &BlockReuse::held_bytes, NoGil());
}

}  // namespace encore::python
