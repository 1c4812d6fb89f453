// The parts of the module `encore._core`, a file each.
#pragma once

#include "python/interpreter.h"

namespace encore::python {

/// Every call into the library is made without the GIL.
using NoGil = py::call_guard<py::gil_scoped_release>;

void bind_policies(py::module_& module);
void bind_checkpoints(py::module_& module);
void bind_memory(py::module_& module);
void bind_budget(py::module_& module);
void bind_profiler(py::module_& module);
void bind_with_blocks(py::module_& module);

}  // namespace encore::python
