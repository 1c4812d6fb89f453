// The GIL is never waited with; errors keep their type and their figures.
#include "python/interpreter.h"

#include <torch/csrc/Exceptions.h>

#include "host/host.h"

namespace encore::python {
namespace {

// Lives as long as the process: errors may come while the interpreter ends.
struct Errors {
  py::object module;
};
Errors* g_errors = nullptr;

thread_local PyObject* g_cause = nullptr;

void* let_go() {
  // At exit threads may still free tensors, with no interpreter left to ask.
  if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) {
    return nullptr;
  }
  return PyEval_SaveThread();
}

void take_back(void* state) {
  PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}

py::object to_python(const Error& error) {
  const auto make = [&](const char* type) { return g_errors->module.attr(type)(error.what()); };
  if (const auto* budget = dynamic_cast<const BudgetError*>(&error)) {
    const BudgetError::Figures& figures = budget->figures();
    py::object exception = make("BudgetError");
    exception.attr("needed_bytes") = figures.needed_bytes;
    exception.attr("limit_bytes") = figures.limit_bytes;
    exception.attr("least_bytes") = figures.least_bytes;
    exception.attr("least_is_known") = figures.least_is_known;
    exception.attr("op") = figures.op;
    exception.attr("other_threads_bytes") = figures.other_threads_bytes;
    exception.attr("parameters_written") = figures.parameters_written;
    return exception;
  }
  if (dynamic_cast<const InvalidArgument*>(&error) != nullptr) {
    return make("InvalidArgument");
  }
  if (dynamic_cast<const ScopeError*>(&error) != nullptr) {
    return make("ScopeError");
  }
  if (dynamic_cast<const ChangedError*>(&error) != nullptr) {
    return make("ChangedError");
  }
  if (dynamic_cast<const DeterminismError*>(&error) != nullptr) {
    return make("DeterminismError");
  }
  if (dynamic_cast<const ReplayError*>(&error) != nullptr) {
    return make("ReplayError");
  }
  return make(dynamic_cast<const SlotError*>(&error) != nullptr ? "SlotError" : "Error");
}

void set_error(const Error& error) {
  const auto cause = py::reinterpret_steal<py::object>(std::exchange(g_cause, nullptr));
  // What is no Exception, as KeyboardInterrupt, is not an error of the user's function: it goes on as it is.
  if (cause && PyErr_GivenExceptionMatches(cause.ptr(), PyExc_Exception) == 0) {
    PyErr_SetObject(py::type::handle_of(cause).ptr(), cause.ptr());
    return;
  }
  const py::object exception = to_python(error);
  if (cause) {
    PyException_SetCause(exception.ptr(), cause.inc_ref().ptr());  // takes the reference
  }
  PyErr_SetObject(py::type::handle_of(exception).ptr(), exception.ptr());
}

void rethrow(const Error& error) {
  if (Py_IsInitialized() == 0) {
    return;
  }
  const py::gil_scoped_acquire gil;
  set_error(error);
  throw_python_error();
}

}  // namespace

void install_host(const py::module_& errors) {
  g_errors = new Errors{errors};
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(std::move(thrown));
    } catch (const Error& error) {
      set_error(error);
    } catch (python_error& error) {
      error.restore();
    }
  });
  host::use_python({&let_go, &take_back, &rethrow});
}

std::shared_ptr<py::object> shared_object(py::object object) {
  return {new py::object(std::move(object)), [](py::object* held) {
            if (Py_IsInitialized() == 0) {
              return;  // nobody is left to free it
            }
            const py::gil_scoped_acquire gil;
            delete held;
          }};
}

void note_cause(py::object exception) {
  Py_XDECREF(g_cause);
  g_cause = exception.release().ptr();
}

void throw_python_error() {
  python_error error;
  error.persist();
  throw error;
}

}  // namespace encore::python
