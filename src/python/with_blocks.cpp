// What a with statement calls. It is C++ because an interrupt (Ctrl-C) may come at the first line of any function of
// Python: after a scope was opened and before its block, or at the block's end before anything was closed.
#include "python/bindings.h"

namespace encore::python {
namespace {

// An impatient user's interrupts while one block closes.
constexpr int kMostInterrupts = 8;

/// Of what a signal's handler raised, which may be of any type, while one of our functions ran.
bool is_an_interrupt(const py::error_already_set& error) {
  return !error.matches(py::module_::import("encore._errors").attr("Error"));
}

void close(const py::object& block, bool failed) {
  std::optional<py::error_already_set> first;
  for (int call = 0; call <= kMostInterrupts; ++call) {
    try {
      block.attr("_close")(failed);
      break;
    } catch (py::error_already_set& error) {
      if (!first) {
        first.emplace(error);
      }
      if (!is_an_interrupt(error)) {
        break;
      }
    }
  }
  if (first) {
    throw py::error_already_set(*first);
  }
}

py::object enter(const py::object& block) {
  try {
    block.attr("_open")();
  } catch (py::error_already_set& error) {
    if (is_an_interrupt(error)) {
      close(block, true);
    }
    throw;
  }
  return block;
}

void leave(const py::object& block, const py::object& kind, const py::object& raised, const py::object&) {
  close(block, !kind.is_none());
  block.attr("_after")(raised);
}

/// Methods without a frame of their own.
template <typename Function>
py::object method(const char* name, Function function) {
  const py::cpp_function bound(function, py::name(name));
  return py::reinterpret_steal<py::object>(PyInstanceMethod_New(bound.ptr()));
}

}  // namespace

void bind_with_blocks(py::module_& module) {
  module.attr("enter") = method("__enter__", &enter);
  module.attr("leave") = method("__exit__", &leave);
}

}  // namespace encore::python
