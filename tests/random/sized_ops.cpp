// The vocabulary: variables of other sizes, from one element to megabytes, and of other types, and what is done to
// them.
#include "random/program.h"

namespace encore::test {
namespace {

using T = at::Tensor;
using M = Machine;
using X = const Tensors&;

/// Numbers that can be differentiated.
T floating(const T& x) {
  return x.is_floating_point() ? x : x.to(at::kFloat);
}

/// The elements again and again until there are so many.
T repeated(const T& x, int64_t count) {
  const T flat = x.reshape(-1);
  return flat.repeat({(count + flat.numel() - 1) / flat.numel()}).narrow(0, 0, count);
}

/// Few are large, or running programs would take long.
T resized(M& m, const T& x) {
  static const std::vector<std::vector<int64_t>> kShapes = {
      {},   {1},     {1, 1},  {7},      {24},    {4, 6},   {2, 3, 5},   {31, 17},
      {64}, {9, 11}, {1, 33}, {100, 7}, {3, 40}, {64, 65}, {300, 1000}, {1 << 16}};
  const std::vector<int64_t>& shape = kShapes[static_cast<size_t>(m.pick(16))];
  return repeated(x, c10::multiply_integers(shape)).reshape(shape);
}

/// More than half a megabyte now and then, up to four.
T grown(M& m, const T& x) {
  return repeated(x, x.numel() > 1 << 16 || m.pick(8) > 0 ? 40 : (int64_t{1} << 17) << m.pick(4));
}

T cast(M& m, const T& x) {
  static constexpr at::ScalarType kTypes[] = {at::kDouble, at::kDouble, at::kBFloat16, at::kBFloat16,
                                              at::kFloat,  at::kLong,   at::kByte,     at::kBool};
  const at::ScalarType type = kTypes[m.pick(8)];
  return type == at::kByte ? (x > 0).to(type) : type == at::kBool ? x > 0.25 : x.to(type);
}

std::vector<OpKind> pure_sized_ops() {
  return {
      {"resize", 1, [](M& m, X x) -> T { return resized(m, x[0]); }},
      {"resize twice", 1, [](M& m, X x) -> T { return resized(m, resized(m, floating(x[0])).cos()); }},
      {"grow", 1, [](M& m, X x) -> T { return grown(m, x[0]); }},
      {"cast", 1, [](M& m, X x) -> T { return cast(m, x[0]); }},
      {"resize and cast", 1, [](M& m, X x) -> T { return cast(m, resized(m, x[0])); }},
      {"any sin", 1, [](M&, X x) -> T { return floating(x[0]).sin(); }},
      {"any sigmoid", 1, [](M&, X x) -> T { return floating(x[0]).sigmoid() * floating(x[0]); }},
      {"any tanh exp", 1, [](M&, X x) -> T { return floating(x[0]).tanh().exp(); }},
      {"any mul", 2, [](M&, X x) -> T { return floating(x[0]) * repeated(x[1], x[0].numel()).reshape(x[0].sizes()); }},
      {"any scale", 2, [](M&, X x) -> T { return floating(x[0]) * floating(x[1]).mean().sigmoid(); }},
      {"any where", 1, [](M&, X x) -> T { return at::where(x[0] > 0, floating(x[0]), floating(x[0]) * 0.1); }},
      {"any dropout", 1, [](M&, X x) -> T { return at::dropout(floating(x[0]), 0.25, true); }},
      {"any softmax", 1, [](M&, X x) -> T { return floating(x[0]).reshape(-1).softmax(0) + x[0].reshape(-1); }},
      {"any cumsum", 1, [](M&, X x) -> T { return floating(x[0]).reshape(-1).cumsum(0).tanh(); }},
      {"any flip", 1, [](M&, X x) -> T { return floating(x[0]).reshape(-1).flip(0).cos(); }},
      {"any half", 1, [](M&, X x) -> T { return x[0].reshape(-1).narrow(0, 0, (x[0].numel() + 1) / 2); }},
      {"any noise", 1, [](M&, X x) -> T { return floating(x[0]) + at::rand_like(floating(x[0])); }},
      {"any data element", 1,
       [](M& m, X x) -> T {
         const T y = floating(x[0]).cos();
         y.data().view(-1)[static_cast<int64_t>(m.choice % static_cast<uint64_t>(y.numel()))].fill_(0.5);
         return y * y;
       }},
  };
}

std::vector<OpKind> writing_sized_ops() {
  std::vector<OpKind> ops = {
      {"any mul_", 1,
       [](M&, X x) -> T {
         x[0].mul_(x[0].is_floating_point() ? at::Scalar(0.9) : at::Scalar(1));
         return floating(x[0]).sin();
       }},
      {"any add_", 2,
       [](M&, X x) -> T {
         x[0].add_(repeated(x[1], x[0].numel()).reshape(x[0].sizes()));
         return floating(x[0]).cos();
       }},
      {"any data mul_", 1,
       [](M&, X x) -> T {
         x[0].data().mul_(x[0].is_floating_point() ? at::Scalar(0.8) : at::Scalar(1));
         return x[0] * 1;
       }},
      {"any element written", 1,
       [](M& m, X x) -> T {
         const at::NoGradGuard no_grad;
         const T flat = x[0].detach().view(-1);
         flat[static_cast<int64_t>(m.choice % static_cast<uint64_t>(flat.numel()))].fill_(1);
         const at::AutoGradMode grad(true);
         return floating(x[0]).sin();
       }},
  };
  for (OpKind& op : ops) {
    op.inplace = true;
  }
  return ops;
}

}  // namespace

std::vector<OpKind> sized_ops() {
  std::vector<OpKind> ops = pure_sized_ops();
  const std::vector<OpKind> writing = writing_sized_ops();
  ops.insert(ops.end(), writing.begin(), writing.end());
  for (OpKind& op : ops) {
    op.any = true;
  }
  return ops;
}

at::Tensor as_matrix(const at::Tensor& x) {
  if (x.sizes() == at::IntArrayRef({kRows, kColumns}) && x.scalar_type() == at::kFloat) {
    return x;
  }
  const T matrix = repeated(x, kRows * kColumns).to(at::kFloat).reshape({kRows, kColumns});
  return matrix + x.to(at::kDouble).mean().to(at::kFloat);
}

}  // namespace encore::test
