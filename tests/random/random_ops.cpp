// The vocabulary: ops that draw random numbers.
#include "random/program.h"

namespace encore::test {
namespace {

using T = at::Tensor;
using M = Machine;
using X = const Tensors&;

}  // namespace

std::vector<OpKind> random_ops() {
  return {
      {"dropout", 1, [](M&, X x) -> T { return at::dropout(x[0], 0.4, true); }},
      {"dropout big", 1,
       [](M&, X x) -> T {
         return at::dropout(x[0].repeat({8, 8}), 0.2, true).narrow(0, 3, 4).narrow(1, 7, 6);
       }},
      {"feature_dropout", 1, [](M&, X x) -> T { return at::feature_dropout(x[0].unsqueeze(2), 0.3, true).squeeze(2); }},
      {"alpha_dropout", 1, [](M&, X x) -> T { return at::alpha_dropout(x[0], 0.3, true); }},
      {"rrelu", 1, [](M&, X x) -> T { return at::rrelu(x[0], 0.1, 0.3, true); }},
      {"rand_like", 1, [](M&, X x) -> T { return x[0] * at::rand_like(x[0]); }},
      {"randn", 1,
       [](M&, X x) -> T {
         return x[0] + torch::randn({4, 6}) * 0.1;
       }},
      {"randn_like odd", 1, [](M&, X x) -> T { return x[0] + torch::randn({5}).sum(); }},
      {"bernoulli", 1, [](M&, X x) -> T { return x[0] * x[0].sigmoid().bernoulli(); }},
      {"normal_", 1,
       [](M&, X x) -> T {
         return x[0] + torch::empty({4, 6}).normal_(0, 0.3);
       }},
      {"uniform_ slice", 1,
       [](M&, X x) -> T {
         T noise = torch::zeros({4, 6});
         noise.slice(0, 0, 2).uniform_();
         return x[0] - noise;
       }},
      {"exponential_", 1,
       [](M&, X x) -> T {
         return x[0] / (torch::empty({4, 6}).exponential_() + 1);
       }},
      {"multinomial", 1,
       [](M&, X x) -> T { return x[0].gather(1, at::softmax(x[0].detach(), 1).multinomial(6, true)); }},
      {"randperm", 1, [](M&, X x) -> T { return x[0].index_select(0, torch::randperm(4)); }},
      {"randint", 1,
       [](M&, X x) -> T {
         return x[0] * torch::randint(0, 3, {4, 1}).to(at::kFloat);
       }},
  };
}

}  // namespace encore::test
