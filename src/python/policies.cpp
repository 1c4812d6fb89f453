// Policies: the built-in ones, and Python callables.
#include <encore/policy.h>

#include "python/bindings.h"

namespace encore::python {
namespace {

/// A value as a Python rule sees it: its texts live on where the rule keeps them.
struct Value {
  explicit Value(const ValueInfo& info)
      : op(info.op), path(info.path), maker(info.maker), bytes(info.bytes), random(info.random) {}
  std::string op;
  std::string path;
  std::string maker;
  int64_t bytes;
  bool random;
};

/// The rule is asked under the tape's lock, which may be held while waiting for the GIL; not the other way round.
Policy from_callable(const py::function& rule, Action rest) {
  const auto held = shared_object(rule);
  return Policy(
      [held](const ValueInfo& info) -> std::optional<Action> {
        const py::gil_scoped_acquire gil;
        try {
          const py::object answer = (*held)(Value(info));
          return answer.is_none() ? std::nullopt : std::optional<Action>(answer.cast<Action>());
        } catch (py::error_already_set& error) {
          error.restore();
        } catch (const py::cast_error&) {
          PyErr_SetString(PyExc_TypeError, "a policy's rule must return an encore.Action or None");
        }
        throw_python_error();
      },
      rest);
}

}  // namespace

void bind_policies(py::module_& module) {
  py::enum_<Action>(module, "Action", "What is done with a value that autograd saves.")
      .value("KEEP", Action::kKeep, "the tensor itself is held, as without Encore")
      .value("RECOMPUTE", Action::kRecompute, "nothing is held: it is brought back when backward asks")
      .value("PACK", Action::kPack,
             "what can be is held in a smaller form that is exact; everything else is recomputed");
  py::class_<Value>(module, "ValueInfo", "A value about to be saved, as policies see it.")
      .def_readonly("op", &Value::op, "the op that made it: 'aten::addmm'")
      .def_readonly("path", &Value::path, "names of the open scopes and checkpoints: 'decoder/block3'")
      .def_readonly("bytes", &Value::bytes, "of its storage")
      .def_readonly("random", &Value::random, "drawn, or changed in place after it was drawn")
      .def_readonly("maker", &Value::maker, "the op that made its storage");
  py::class_<Policy>(
      module, "Policy",
      "A rule over the values that autograd saves. `first | second` asks second where first has no "
      "opinion. Wherever one is asked for, a function will do: rule(value: ValueInfo) -> Action or None.")
      .def(py::init(&from_callable), py::arg("rule"), py::arg("rest") = Action::kKeep,
           "rule(value: ValueInfo) -> Action or None; `rest` is for values on which it has no opinion.")
      .def("__or__", [](const Policy& first, const Policy& second) { return first | second; })
      .def_property_readonly("rest", &Policy::rest);
  py::implicitly_convertible<py::function, Policy>();
  module.def("keep_all", &keep_all, "Keeps everything: records, saves no memory.");
  module.def("drop_all", &drop_all, "Recomputes everything.");
  module.def("pack_masks", &pack_masks, "Packs masks that were drawn, recomputes the rest: checkpoint's default.");
  module.def("keep_matmuls", &keep_matmuls, "Keeps matrix products, convolutions and attention; recomputes the rest.");
  module.def(
      "keep_ops",
      [](const std::vector<std::string>& ops) {
        Policy policy = drop_all();
        for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
          policy = Policy([one = keep_ops({*op})](const ValueInfo& value) { return one.opinion(value); },
                          Action::kRecompute) |
                   policy;
        }
        return policy;
      },
      py::arg("ops"), "Keeps results of the named ops, such as ['aten::addmm']; recomputes the rest.");
  module.def("larger_than", &larger_than, py::arg("bytes"), "Recomputes values of more bytes; keeps the rest.");
  module.def("named", &named, py::arg("pattern"), py::arg_v("policy", drop_all(), "drop_all()"),
             "Applies `policy` where the path matches ('*', '?'); keeps the rest.");
}

}  // namespace encore::python
