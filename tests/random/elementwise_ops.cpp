// The vocabulary: pointwise ops, reductions, comparisons and casts.
#include "random/program.h"

namespace encore::test {
namespace {

using T = at::Tensor;
using M = Machine;
using X = const Tensors&;

at::Tensor widen(const at::Tensor& reduced) {
  return reduced.expand({kRows, kColumns});
}

}  // namespace

std::vector<OpKind> elementwise_ops() {
  return {
      {"add", 2, [](M&, X x) -> T { return x[0] + x[1]; }},
      {"sub", 2, [](M&, X x) -> T { return at::sub(x[0], x[1], 0.5); }},
      {"mul", 2, [](M&, X x) -> T { return x[0] * x[1]; }},
      {"div", 2, [](M&, X x) -> T { return x[0] / (x[1].abs() + 1); }},
      {"mul scalar", 1, [](M& m, X x) -> T { return x[0] * (0.25 * static_cast<double>(m.pick(7)) - 0.8); }},
      {"add scalar", 1, [](M& m, X x) -> T { return x[0] + static_cast<int64_t>(m.pick(3)); }},
      {"rsub", 1, [](M&, X x) -> T { return 1 - x[0]; }},
      {"neg", 1, [](M&, X x) -> T { return -x[0]; }},
      {"exp", 1, [](M&, X x) -> T { return x[0].clamp(-3, 1).exp(); }},
      {"expm1", 1, [](M&, X x) -> T { return x[0].tanh().expm1(); }},
      {"log1p", 1, [](M&, X x) -> T { return x[0].abs().log1p(); }},
      {"sqrt", 1, [](M&, X x) -> T { return (x[0].square() + 1).sqrt(); }},
      {"rsqrt", 1, [](M&, X x) -> T { return (x[0].square() + 1).rsqrt(); }},
      {"reciprocal", 1, [](M&, X x) -> T { return (x[0].abs() + 0.5).reciprocal(); }},
      {"sin", 1, [](M&, X x) -> T { return x[0].sin(); }},
      {"cos", 1, [](M&, X x) -> T { return x[0].cos(); }},
      {"atan", 1, [](M&, X x) -> T { return x[0].atan(); }},
      {"erf", 1, [](M&, X x) -> T { return x[0].erf(); }},
      {"asinh", 1, [](M&, X x) -> T { return x[0].asinh(); }},
      {"tanh", 1, [](M&, X x) -> T { return x[0].tanh(); }},
      {"sigmoid", 1, [](M&, X x) -> T { return x[0].sigmoid(); }},
      {"relu", 1, [](M&, X x) -> T { return x[0].relu(); }},
      // Not the exact one: LibTorch 1.13.1 returns unset bytes for a gradient that is not contiguous.
      {"gelu", 1, [](M&, X x) -> T { return at::gelu(x[0], "tanh"); }},
      {"silu", 1, [](M&, X x) -> T { return at::silu(x[0]); }},
      {"mish", 1, [](M&, X x) -> T { return at::mish(x[0]); }},
      {"elu", 1, [](M&, X x) -> T { return at::elu(x[0]); }},
      {"celu", 1, [](M&, X x) -> T { return at::celu(x[0]); }},
      {"leaky_relu", 1, [](M&, X x) -> T { return at::leaky_relu(x[0], 0.1); }},
      {"softplus", 1, [](M&, X x) -> T { return at::softplus(x[0]); }},
      {"hardtanh", 1, [](M&, X x) -> T { return at::hardtanh(x[0]); }},
      {"hardswish", 1, [](M&, X x) -> T { return at::hardswish(x[0]); }},
      {"log_sigmoid", 1, [](M&, X x) -> T { return at::log_sigmoid(x[0]); }},
      {"softshrink", 1, [](M&, X x) -> T { return at::softshrink(x[0], 0.1); }},
      {"abs", 1, [](M&, X x) -> T { return x[0].abs(); }},
      {"pow", 1, [](M& m, X x) -> T { return x[0].tanh().pow(m.pick(3) + 1); }},
      {"pow tensor", 2, [](M&, X x) -> T { return (x[0].abs() + 0.5).pow(x[1].tanh()); }},
      {"sign", 1, [](M&, X x) -> T { return x[0].sign() * x[0]; }},
      {"round", 1, [](M&, X x) -> T { return x[0].round() + x[0]; }},
      {"clamp", 1, [](M&, X x) -> T { return x[0].clamp(-0.5, 0.7); }},
      {"maximum", 2, [](M&, X x) -> T { return at::maximum(x[0], x[1]); }},
      {"minimum", 2, [](M&, X x) -> T { return at::minimum(x[0], x[1]); }},
      {"atan2", 2, [](M&, X x) -> T { return at::atan2(x[0], x[1]); }},
      {"hypot", 2, [](M&, X x) -> T { return at::hypot(x[0], x[1] + 0.1); }},
      {"lerp", 3, [](M&, X x) -> T { return at::lerp(x[0], x[1], x[2].sigmoid()); }},
      {"addcmul", 3, [](M&, X x) -> T { return at::addcmul(x[0], x[1], x[2], 0.5); }},
      {"addcdiv", 3, [](M&, X x) -> T { return at::addcdiv(x[0], x[1], x[2].square() + 1); }},
      {"where", 3, [](M&, X x) -> T { return at::where(x[0] > x[1], x[2], x[0] * 2); }},
      {"masked_fill", 2, [](M&, X x) -> T { return x[0].masked_fill(x[1] > 0, 0.25); }},
      {"softmax", 1, [](M& m, X x) -> T { return at::softmax(x[0], m.pick(2)); }},
      {"log_softmax", 1, [](M& m, X x) -> T { return at::log_softmax(x[0], m.pick(2)); }},
      {"cumsum", 1, [](M& m, X x) -> T { return x[0].cumsum(m.pick(2)) * 0.5; }},
      {"cumprod", 1, [](M& m, X x) -> T { return (x[0].tanh() + 1.5).cumprod(m.pick(2)).tanh(); }},
      {"logcumsumexp", 1, [](M& m, X x) -> T { return x[0].logcumsumexp(m.pick(2)); }},
      {"cummax", 1, [](M& m, X x) -> T { return std::get<0>(x[0].cummax(m.pick(2))); }},
      {"sum", 1, [](M& m, X x) -> T { return widen(x[0].sum(m.pick(2), true)) * 0.2; }},
      {"sum all", 1, [](M&, X x) -> T { return widen(x[0].sum().tanh()); }},
      {"mean", 1, [](M& m, X x) -> T { return widen(x[0].mean(m.pick(2), true)); }},
      {"var", 1, [](M& m, X x) -> T { return widen(x[0].var(at::IntArrayRef{m.pick(2)}, true, true)).tanh(); }},
      {"std_mean", 1,
       [](M& m, X x) -> T {
         const auto [deviation, mean] = at::std_mean(x[0], at::IntArrayRef{m.pick(2)}, true, true);
         return (x[0] - mean) / (deviation + 1);
       }},
      {"norm", 1, [](M& m, X x) -> T { return widen(x[0].norm(2, {m.pick(2)}, true)) * 0.3; }},
      {"logsumexp", 1, [](M& m, X x) -> T { return x[0] - x[0].logsumexp({m.pick(2)}, true); }},
      {"amax", 1, [](M& m, X x) -> T { return x[0] - x[0].amax({m.pick(2)}, true); }},
      {"max dim", 1, [](M& m, X x) -> T { return x[0] * std::get<0>(x[0].max(m.pick(2), true)); }},
      // LibTorch 1.13.1 reads past an expanded tensor here: the median of equal numbers is another one.
      {"median dim", 1, [](M& m, X x) -> T { return x[0] - std::get<0>(x[0].contiguous().median(m.pick(2), true)); }},
      {"prod", 1, [](M& m, X x) -> T { return widen(x[0].tanh().prod(m.pick(2), true)); }},
      {"sort", 1, [](M& m, X x) -> T { return std::get<0>(x[0].sort(m.pick(2))); }},
      {"topk", 1,
       [](M&, X x) -> T {
         const auto [values, indices] = x[0].topk(3, 1);
         return at::cat({values, x[0].gather(1, indices)}, 1);
       }},
      {"to double", 1, [](M&, X x) -> T { return x[0].to(at::kDouble).sin().to(at::kFloat); }},
      {"to bfloat16", 1, [](M&, X x) -> T { return (x[0].to(at::kBFloat16) * 2).to(at::kFloat); }},
      {"to int", 1, [](M&, X x) -> T { return x[0] + (x[0] * 3).to(at::kInt).to(at::kFloat); }},
      {"comparison", 2, [](M&, X x) -> T { return x[0] * (x[0] > x[1]); }},
      {"complex", 2,
       [](M&, X x) -> T {
         const T z = at::complex(x[0], x[1]);
         return at::real(z * z.conj()).tanh() + at::imag(z).sin();
       }},
      {"control flow", 2,
       [](M&, X x) -> T { return x[0].sum().item<float>() > 0 ? x[0] * x[1].sin() : x[1] - x[0].tanh(); }},
  };
}

}  // namespace encore::test
