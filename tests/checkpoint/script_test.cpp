// TorchScript functions, whose executor takes another way each time while it warms up.
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include "support/oracle.h"

namespace encore::test {
namespace {

const char* const kSource = R"(
def f(x, w):
    y = torch.tanh(x.mm(w)) * 2.0
    if float(y.sum()) > 1000000.0:
        y = y + 1.0
    return torch.sigmoid(y) * torch.relu(y) + y
)";

using Script = EveryMode;

TEST_P(Script, AFunctionIsCalledAgainWhileItsExecutorWarmsUp) {
  const auto unit = torch::jit::compile(kSource);
  const auto plain_unit = torch::jit::compile(kSource);
  torch::manual_seed(3);
  const at::Tensor x = leaf({5, 6});
  const at::Tensor w = leaf({6, 6});
  for (int call = 0; call < 8; ++call) {
    Outcome expected;
    const auto step = [&](const Mode& mode, const std::shared_ptr<torch::jit::CompilationUnit>& code) {
      x.mutable_grad() = at::Tensor();
      w.mutable_grad() = at::Tensor();
      std::optional<Scope> scope;
      if (mode.around) {
        scope.emplace(*mode.around);
      }
      Outcome outcome;
      const Tensors y =
          apply(mode, [&](const Tensors& in) { return Tensors{code->run_method("f", in[0], in[1]).toTensor().sin()}; },
                {x, w});
      backward_of_sum(y, {x, w}, outcome);
      return outcome;
    };
    {
      // Called again, a function runs as it is written: TorchScript's own derivatives have other bits.
      const torch::jit::GraphOptimizerEnabledGuard optimized(replays());
      expected = step(plain(), plain_unit);
    }
    const Outcome actual = step(GetParam(), unit);
    EXPECT_EQ(difference(expected, actual), "") << "call " << call;
  }
}

ENCORE_IN_EVERY_MODE(Script);

}  // namespace
}  // namespace encore::test
