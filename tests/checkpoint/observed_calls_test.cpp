// Calls and scopes that end where they did not begin: in another scope, or on another thread.
#include <future>
#include <thread>

#include <ATen/record_function.h>
#include <torch/library.h>

#include "support/oracle.h"

namespace encore::test {
namespace {

std::function<void()> g_inside_observed;

at::Tensor observed(const at::Tensor& x) {
  at::Tensor result = x.cos();
  g_inside_observed();
  return result;
}
TORCH_LIBRARY_FRAGMENT(encore_test, m) {
  m.def("observed(Tensor self) -> Tensor");
}
TORCH_LIBRARY_IMPL(encore_test, CPU, m) {
  m.impl("observed", observed);
}

/// A range of the user's own that began in one scope ends while an op of the next one runs: it must not end that op.
TEST(ObservedCalls, EndWithTheScopeInWhichTheyBegan) {
  const at::Tensor x = leaf({8});
  std::optional<at::RecordFunction> range;
  {
    const Scope first;
    range.emplace(at::RecordScope::FUNCTION);
    range->before("a range of the user's");
  }
  g_inside_observed = [&] { range.reset(); };
  Scope second(drop_all());
  const at::Tensor h = c10::Dispatcher::singleton()
                           .findSchemaOrThrow("encore_test::observed", "")
                           .typed<at::Tensor(const at::Tensor&)>()
                           .call(x.detach());
  const at::Tensor y = (x * h).sum();
  EXPECT_EQ(second.stats().ops_recorded, 4) << second.dump();  // detach, observed, mul, sum
  EXPECT_EQ(second.stats().values_dropped, 1);
  EXPECT_TRUE(same_bits(torch::autograd::grad({y}, {x})[0], x.detach().cos()));
}

/// Without the thread sanitizer nothing shows if the scope looks at its thread's regions while they change.
TEST(ObservedCalls, AScopeIsDestroyedElsewhereWhileItsThreadOpensOthers) {
  const at::Tensor x = leaf({8});
  const at::Tensor expected = torch::autograd::grad({x.exp().sin().sum()}, {x})[0];
  for (int round = 0; round < 50; ++round) {
    auto outer = std::make_unique<Scope>(drop_all());
    const at::Tensor before = x.exp().sin().sum();
    std::promise<void> go;
    std::thread other([&] {
      go.get_future().wait();
      outer.reset();
    });
    go.set_value();
    for (int i = 0; i < 50; ++i) {
      const Scope inner;
      const Scope innermost;
    }
    other.join();
    EXPECT_THROW(checkpoint(x), ScopeError) << "no scope is open any more";
    EXPECT_TRUE(same_bits(expected, torch::autograd::grad({before}, {x})[0]));
  }
}

}  // namespace
}  // namespace encore::test
