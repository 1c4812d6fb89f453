// The vocabulary: in-place ops on whole variables, on views of them and on views of views. x[0] is written to.
#include "random/program.h"

namespace encore::test {
namespace {

using T = at::Tensor;
using M = Machine;
using X = const Tensors&;

}  // namespace

std::vector<OpKind> inplace_ops() {
  std::vector<OpKind> ops = {
      {"add_", 2, [](M&, X x) -> T { return T(x[0]).add_(x[1]); }},
      {"sub_", 2, [](M&, X x) -> T { return T(x[0]).sub_(x[1], 0.3); }},
      {"mul_", 2, [](M&, X x) -> T { return T(x[0]).mul_(x[1]); }},
      {"mul_ scalar", 1, [](M&, X x) -> T { return T(x[0]).mul_(0.7); }},
      {"div_", 2, [](M&, X x) -> T { return T(x[0]).div_(x[1].abs() + 1); }},
      {"tanh_", 1, [](M&, X x) -> T { return T(x[0]).tanh_(); }},
      {"sigmoid_", 1, [](M&, X x) -> T { return T(x[0]).sigmoid_(); }},
      {"relu_", 1, [](M&, X x) -> T { return T(x[0]).relu_(); }},
      {"sin_", 1, [](M&, X x) -> T { return T(x[0]).sin_(); }},
      {"clamp_", 1, [](M&, X x) -> T { return T(x[0]).clamp_(-0.6, 0.6); }},
      {"addcmul_", 3, [](M&, X x) -> T { return T(x[0]).addcmul_(x[1], x[2], 0.5); }},
      {"lerp_", 2, [](M&, X x) -> T { return T(x[0]).lerp_(x[1], 0.4); }},
      {"zero_", 1, [](M&, X x) -> T { return T(x[0]).zero_(); }},
      {"fill_", 1, [](M&, X x) -> T { return T(x[0]).fill_(0.3); }},
      {"copy_", 2, [](M&, X x) -> T { return T(x[0]).copy_(x[1]); }},
      {"masked_fill_", 2, [](M&, X x) -> T { return T(x[0]).masked_fill_(x[1] > 0.2, -0.4); }},
      {"slice copy_", 2,
       [](M& m, X x) -> T {
         const int64_t start = m.pick(3);
         x[0].slice(1, start, start + 3).copy_(x[1].slice(1, 0, 3));
         return x[0];
       }},
      {"select add_", 2,
       [](M& m, X x) -> T {
         x[0].select(0, m.pick(4)).add_(x[1].select(0, m.pick(4)));
         return x[0];
       }},
      {"view of view mul_", 2,
       [](M& m, X x) -> T {
         x[0].t().narrow(0, m.pick(4), 2).mul_(x[1].t().narrow(0, 1, 2));
         return x[0];
       }},
      {"write through view", 2,
       [](M&, X x) -> T {
         const T view = x[0].unsqueeze(0);
         view.add_(x[1]);
         return view.squeeze(0) * x[0];
       }},
      {"self through view", 1,
       [](M&, X x) -> T {
         x[0].select(0, 0).add_(x[0].select(0, 1));
         return x[0];
       }},
      {"index_put_", 2,
       [](M& m, X x) -> T {
         x[0].index_put_({torch::tensor({m.pick(4)})}, x[1].select(0, 0));
         return x[0];
       }},
      {"index_add_", 2,
       [](M&, X x) -> T {
         return T(x[0]).index_add_(0, torch::tensor({int64_t{1}, int64_t{3}}), x[1].narrow(0, 0, 2));
       }},
      {"scatter_", 2, [](M&, X x) -> T { return T(x[0]).scatter_(1, (x[1] > 0).to(at::kLong).narrow(1, 0, 2), x[1]); }},
      {"setitem", 1,
       [](M& m, X x) -> T {
         T(x[0]).index_put_({m.pick(4), m.pick(6)}, 0.75);
         return x[0];
       }},
      {"t_ twice", 1,
       [](M&, X x) -> T {
         T y = x[0] * 1;
         y.t_();
         return (y * 2).t();
       }},
      {"accumulate", 2,
       [](M&, X x) -> T {
         T sum = torch::zeros_like(x[1]);
         for (int i = 0; i < 3; ++i) {
           sum += x[1] * (i + 1);
         }
         return T(x[0]).add_(sum.tanh());
       }},
      {"out variant", 2,
       [](M&, X x) -> T {
         const at::NoGradGuard guard;
         T y = torch::empty({4, 6});
         at::add_out(y, x[1], x[1]);
         x[0].add_(y);
         return x[0];
       }},
      {"relu_ of chain", 1, [](M&, X x) -> T { return x[0].mul(2).add_(1).relu_().sub_(0.5); }},
  };
  for (OpKind& op : ops) {
    op.inplace = true;
  }
  return ops;
}

}  // namespace encore::test
