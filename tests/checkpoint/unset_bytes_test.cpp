// Results of which some bytes are never set.
#include "support/oracle.h"

namespace encore::test {
namespace {

using UnsetBytes = EveryMode;

TEST_P(UnsetBytes, CtcLossOfTargetsOfDifferentLengths) {
  expect_same(
      [] {
        return Tensors{leaf({12, 4, 6})};
      },
      [](const Tensors& x) {
        // Freed blocks with other bytes in them each time.
        for (int64_t i = 1; i < 2000; i += 7) {
          torch::full({i}, static_cast<double>(torch::randint(1000, {}).item<int64_t>()));
        }
        const at::Tensor targets = torch::randint(1, 6, {4, 5});
        const at::Tensor lengths = torch::tensor({5, 2, 3, 1});
        const at::Tensor inputs = torch::tensor({12, 9, 12, 7});
        const at::Tensor loss =
            torch::ctc_loss(x[0].log_softmax(2), targets, inputs, lengths, 0, at::Reduction::None, false);
        return Tensors{loss.sin()};
      });
}

ENCORE_IN_EVERY_MODE(UnsetBytes);

}  // namespace
}  // namespace encore::test
