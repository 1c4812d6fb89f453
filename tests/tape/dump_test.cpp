// The tape as text: whole tapes compared with what they must be.
#include "support/oracle.h"

namespace encore::test {
namespace {

TEST(Dump, LinearLayersAreTheirMatrixProducts) {
  const at::Tensor x = torch::ones({2, 3});
  const at::Tensor weight = torch::ones({4, 3}).requires_grad_();
  Scope scope(keep_all(), "layer");
  const at::Tensor y = torch::linear(x, weight).relu();
  EXPECT_EQ(scope.dump(), R"(tape 'layer': 3 ops, 4 values
0: aten::t(%0s Float[4, 3]) -> %0 Float[3, 4]
1: aten::mm(%1s Float[2, 3], %0s Float[3, 4]) -> %2 Float[2, 4]
2: aten::relu(%2 Float[2, 4]) -> %3 Float[2, 4]
)");
}

TEST(Dump, InPlaceOpsMakeVersionsAndFullOverwritesForgetTheOldOnes) {
  const at::Tensor x = torch::ones({2});
  Scope scope;
  at::Tensor y = x.exp();
  y.narrow(0, 0, 1).mul_(x.narrow(0, 1, 1));
  y.zero_();
  EXPECT_EQ(scope.dump(), R"(tape '': 5 ops, 4 values
0: aten::exp(%0s Float[2]) -> %1 Float[2]
1: aten::slice.Tensor(%1 Float[2], 0, 0, 1, 1) -> %1 Float[1]
2: aten::slice.Tensor(%0s Float[2], 0, 1, 2, 1) -> %0 Float[1]
3: aten::mul_.Tensor(%1 Float[1], %0s Float[1]) writes %1->%2 -> %2 Float[1]
4: aten::zero_(%2 Float[2]) writes %2->%3 full -> %3 Float[2]
)");
}

TEST(Dump, RandomOpsAndRunningStatistics) {
  const at::Tensor x = torch::ones({4, 2});
  const at::Tensor mean = torch::zeros({2});
  const at::Tensor variance = torch::ones({2});
  Scope scope;
  torch::native_batch_norm(x, {}, {}, mean, variance, true, 0.1, 1e-5);
  const at::Tensor z = torch::empty({2}).bernoulli_(0.5);
  EXPECT_EQ(scope.dump(), R"(tape '': 3 ops, 10 values
0: aten::native_batch_norm(%0s Float[4, 2], none, none, %1s Float[2], %2s Float[2], true, 0.1, 1e-05) writes %1->%3 state writes %2->%4 state -> %5 Float[4, 2] %6 Float[2] %7 Float[2]
1: aten::empty.memory_format((2), none, none, none, none, none) -> %8 Float[2]
2: aten::bernoulli_.float(%8 Float[2], 0.5, none) writes %8->%9 full -> %9 Float[2] random
)");
}

}  // namespace
}  // namespace encore::test
