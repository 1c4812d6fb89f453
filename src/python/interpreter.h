// The interpreter's side of the Python host: the GIL, and errors of ours as Python exceptions.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <encore/error.h>

namespace encore::python {

namespace py = pybind11;

/// Tells the library that this process is Python's, and pybind11 which Python exception an error of ours is.
/// `errors`: the module that has them.
void install_host(const py::module_& errors);

/// A Python object that may be let go of on any thread, with the GIL or without it.
std::shared_ptr<py::object> shared_object(py::object object);

/// The next error of ours that leaves a hook on this thread was caused by this exception of the user's.
void note_cause(py::object exception);

/// Throws the Python exception that is set, as LibTorch's own bindings understand it.
[[noreturn]] void throw_python_error();

}  // namespace encore::python
