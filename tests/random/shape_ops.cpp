// The vocabulary: views, views of views, joining, splitting and indexing.
#include "random/program.h"

namespace encore::test {
namespace {

using T = at::Tensor;
using M = Machine;
using X = const Tensors&;

}  // namespace

std::vector<OpKind> shape_ops() {
  return {
      {"view", 1,
       [](M&, X x) -> T {
         return x[0].reshape({2, 2, 6}).view({4, 6});
       }},
      {"view of view", 1, [](M&, X x) -> T { return x[0].t().t().unsqueeze(0).squeeze(0); }},
      {"transposed copy", 1, [](M&, X x) -> T { return x[0].t().contiguous().t(); }},
      {"slice of cat", 2,
       [](M& m, X x) -> T {
         return at::cat({x[0], x[1]}, 0).slice(0, m.pick(5), m.pick(1) + 8).narrow(0, 0, 4);
       }},
      {"select of stack", 2,
       [](M& m, X x) -> T {
         return at::stack({x[0], x[1]}, 2).select(2, m.pick(2));
       }},
      {"strided", 2,
       [](M&, X x) -> T {
         return at::stack({x[0], x[1]}, 1).flatten(0, 1).slice(0, 0, 8, 2);
       }},
      {"permute", 1,
       [](M&, X x) -> T {
         return x[0].reshape({2, 2, 6}).permute({2, 1, 0}).reshape({6, 4}).t();
       }},
      {"expand", 1,
       [](M& m, X x) -> T {
         return x[0].select(0, m.pick(4)).expand({4, 6});
       }},
      {"repeat", 1,
       [](M&, X x) -> T {
         return x[0].narrow(1, 0, 2).repeat({1, 3});
       }},
      {"split", 1,
       [](M&, X x) -> T {
         const auto parts = x[0].split(2, 1);
         return at::cat({parts[2], parts[0] * 2, parts[1]}, 1);
       }},
      {"chunk", 1,
       [](M&, X x) -> T {
         const auto parts = x[0].chunk(2, 0);
         return at::cat({parts[1].sin(), parts[0]}, 0);
       }},
      {"unbind", 1,
       [](M&, X x) -> T {
         const auto rows = x[0].unbind(0);
         return at::stack({rows[3], rows[1], rows[1].exp().tanh(), rows[0]});
       }},
      {"flip", 1, [](M& m, X x) -> T { return x[0].flip({m.pick(2)}); }},
      {"roll", 1, [](M& m, X x) -> T { return x[0].roll({m.pick(3) + 1}, {m.pick(2)}); }},
      {"pad", 1,
       [](M& m, X x) -> T {
         return at::constant_pad_nd(x[0].narrow(1, m.pick(3), 4), {1, 1}, 0.5);
       }},
      {"tril", 1, [](M& m, X x) -> T { return x[0].tril(m.pick(3) - 1); }},
      {"triu", 1, [](M& m, X x) -> T { return x[0].triu(m.pick(3) - 1); }},
      {"diagonal", 1, [](M&, X x) -> T { return x[0] + x[0].diagonal().sum(); }},
      {"unfold", 1,
       [](M&, X x) -> T {
         return x[0].unfold(1, 3, 1).sum(2).repeat({1, 2}).narrow(1, 0, 6);
       }},
      {"as_strided", 1,
       [](M&, X x) -> T {
         return x[0].contiguous().as_strided({4, 6}, {5, 1}, 0) * 0.5;
       }},
      {"index_select", 1,
       [](M& m, X x) -> T {
         return x[0].index_select(0, torch::tensor({m.pick(4), int64_t{3}, int64_t{0}, m.pick(4)}));
       }},
      {"gather", 2, [](M&, X x) -> T { return x[0].gather(1, x[1].argsort(1, false)); }},
      {"take_along", 1,
       [](M&, X x) -> T {
         return x[0].take_along_dim(x[0].argmax(1, true), 1).expand({4, 6});
       }},
      {"index", 1,
       [](M& m, X x) -> T {
         return x[0].index({torch::tensor({m.pick(4), m.pick(4), int64_t{2}, int64_t{1}})});
       }},
      {"index mask", 1, [](M&, X x) -> T { return x[0] + x[0].index({x[0] > 0}).sum(); }},
      {"masked_select", 1, [](M&, X x) -> T { return x[0] * x[0].masked_select(x[0] > 0.1).mean().nan_to_num(0.5); }},
      {"scatter_add", 2, [](M&, X x) -> T { return x[0].scatter_add(1, (x[1] > 0).to(at::kLong), x[1]); }},
      {"scatter", 2, [](M&, X x) -> T { return x[0].scatter(1, (x[1] > 0).to(at::kLong).narrow(1, 0, 3), x[1]); }},
      {"index_add", 2,
       [](M&, X x) -> T {
         return x[0].index_add(0, torch::tensor({int64_t{0}, int64_t{2}}), x[1].narrow(0, 0, 2));
       }},
      {"index_put", 2,
       [](M& m, X x) -> T {
         return x[0].index_put({torch::tensor({m.pick(4)})}, x[1].narrow(0, 0, 1), /*accumulate=*/m.pick(2) == 0);
       }},
      {"one_hot", 1, [](M&, X x) -> T { return at::one_hot(x[0].argmax(1), 6).to(at::kFloat) * x[0]; }},
      {"view_as_complex", 1,
       [](M&, X x) -> T {
         const T z = at::view_as_complex(x[0].contiguous().view({4, 3, 2}));
         return at::view_as_real(z * z).reshape({4, 6}).tanh();
       }},
      {"resolve_conj", 1,
       [](M&, X x) -> T {
         const T z = at::view_as_complex(x[0].contiguous().view({4, 3, 2})).conj();
         return at::view_as_real(z.resolve_conj()).reshape({4, 6});
       }},
      {"contiguous view dtype", 1,
       [](M&, X x) -> T { return x[0] + x[0].detach().contiguous().view(at::kInt).remainder(3).to(at::kFloat); }},
  };
}

}  // namespace encore::test
