// Registered when the program is loaded.
#include "support/schemas.h"

#include <torch/library.h>

namespace encore::test {
namespace {

at::Tensor& accumulate(const at::Tensor& x, at::Tensor& acc) {
  return acc.add_(x);
}
at::Tensor scale(const at::Tensor& x, at::Tensor& state) {
  at::Tensor result = x * state;
  state.add_(1);
  return result;
}
std::tuple<at::Tensor&, at::Tensor&> swap_add(at::Tensor& a, at::Tensor& b) {
  const at::Tensor before = a.clone();
  a.add_(b);
  b.mul_(before);
  return {a, b};
}
void bump(at::Tensor& state) {
  state.mul_(0.5);
  state.add_(0.1);
}
at::Tensor& first_row(const at::Tensor& x, at::Tensor& out) {
  out.select(0, 0).copy_(x.select(0, 0));
  return out;
}
at::Tensor maybe_view(const at::Tensor& x) {
  return x.select(0, 0);
}

TORCH_LIBRARY(encore_schemas, m) {
  m.def("accumulate(Tensor x, *, Tensor(a!) acc) -> Tensor(a!)");
  m.def("scale(Tensor x, Tensor(a!) state) -> Tensor");
  m.def("swap_add(Tensor(a!) a, Tensor(b!) b) -> (Tensor(a!), Tensor(b!))");
  m.def("bump(Tensor(a!) state) -> ()");
  m.def("first_row(Tensor x, *, Tensor(a!) out) -> Tensor(a!)");
  m.def("maybe_view(Tensor(a) x) -> Tensor(a)");
}
TORCH_LIBRARY_IMPL(encore_schemas, CPU, m) {
  m.impl("accumulate", accumulate);
  m.impl("scale", scale);
  m.impl("swap_add", swap_add);
  m.impl("bump", bump);
  m.impl("first_row", first_row);
  m.impl("maybe_view", maybe_view);
}

}  // namespace

c10::OperatorHandle schema(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow((std::string("encore_schemas::") + name).c_str(), "");
}

}  // namespace encore::test
