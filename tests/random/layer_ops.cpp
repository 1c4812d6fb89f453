// The vocabulary: matrix products, convolutions, pooling, norms, losses, custom functions, constants.
#include "random/program.h"

namespace encore::test {
namespace {

using T = at::Tensor;
using M = Machine;
using X = const Tensors&;

/// Saves its input, and an intermediate that is neither input nor output.
struct Cube : torch::autograd::Function<Cube> {
  static T forward(torch::autograd::AutogradContext* context, const T& x) {
    const T square = x * x;
    context->save_for_backward({x, square});
    return square * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    return {grads[0] * 3 * saved[1] + saved[0] * 0};
  }
};

/// Returns its input as an output besides a new one, and saves its output.
struct Pair : torch::autograd::Function<Pair> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const T& x) {
    const T y = x.sigmoid();
    context->save_for_backward({y});
    return {y, x.clone()};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const T y = context->get_saved_variables()[0];
    return {grads[0] * y * (1 - y) + grads[1]};
  }
};

T left_square(const T& x) {
  return x.narrow(1, 0, 4);
}

T image(const T& x) {
  return x.reshape({2, 3, 2, 2});
}

/// Weights of a norm, side by side: LibTorch 1.13.1 returns gradients of unset bytes for expanded ones.
T row(const T& x, int64_t index) {
  return x.select(0, index).contiguous();
}

}  // namespace

std::vector<OpKind> layer_ops() {
  return {
      {"mm", 2, [](M&, X x) -> T { return left_square(x[0]).mm(x[1]) * 0.5; }},
      {"addmm", 2, [](M&, X x) -> T { return at::addmm(x[0], left_square(x[1]), x[0]).tanh(); }},
      {"matmul", 2, [](M&, X x) -> T { return at::matmul(x[0].mm(x[1].t()), x[1]).tanh(); }},
      {"linear", 2,
       [](M&, X x) -> T {
         return at::linear(x[0], at::cat({x[1], x[0].narrow(0, 0, 2)}, 0)).tanh();
       }},
      {"bmm", 2,
       [](M&, X x) -> T {
         return at::bmm(x[0].reshape({2, 2, 6}), x[1].reshape({2, 6, 2}))
             .reshape({2, 4})
             .repeat({2, 2})
             .narrow(1, 0, 6)
             .tanh();
       }},
      {"baddbmm", 2,
       [](M&, X x) -> T {
         return at::baddbmm(x[0].reshape({2, 2, 6}), x[1].reshape({2, 2, 6}).narrow(2, 0, 2), x[0].reshape({2, 2, 6}))
             .reshape({4, 6})
             .tanh();
       }},
      {"einsum", 2,
       [](M&, X x) -> T {
         return at::einsum("ij,kj->ik", {x[0], x[1]}).matmul(x[0]).tanh();
       }},
      {"mv", 2, [](M&, X x) -> T { return x[0].mv(x[1].select(0, 0)).unsqueeze(1) * x[1]; }},
      {"dot", 2, [](M&, X x) -> T { return x[0] * x[0].select(0, 1).dot(x[1].select(0, 2)).tanh(); }},
      {"outer", 2, [](M&, X x) -> T { return at::outer(x[0].select(1, 0), x[1].select(0, 0)); }},
      {"conv1d", 2,
       [](M&, X x) -> T {
         return at::conv1d(x[0].reshape({1, 4, 6}), x[1].narrow(1, 0, 3).repeat({4, 1}).reshape({4, 4, 3}), {}, 1, 1)
             .reshape({4, 6})
             .tanh();
       }},
      {"conv2d", 2,
       [](M&, X x) -> T {
         return at::conv2d(image(x[0]), x[1].flatten().narrow(0, 0, 9).reshape({3, 3, 1, 1})).reshape({4, 6}).tanh();
       }},
      {"conv_transpose", 2,
       [](M&, X x) -> T {
         return at::conv_transpose1d(x[0].reshape({1, 4, 6}), x[1].narrow(1, 0, 4).reshape({4, 4, 1}))
             .reshape({4, 6})
             .tanh();
       }},
      {"max_pool", 1, [](M&, X x) -> T { return at::max_pool1d(x[0].unsqueeze(0), 3, 1, 1).squeeze(0); }},
      {"max_pool2d", 1,
       [](M&, X x) -> T {
         return at::max_pool2d(image(x[0]), 2).reshape({2, 3}).repeat({2, 2});
       }},
      {"avg_pool", 1,
       [](M&, X x) -> T {
         return at::avg_pool2d(image(x[0]), 2).expand({2, 3, 2, 2}).reshape({4, 6});
       }},
      {"adaptive_avg_pool", 1,
       [](M&, X x) -> T {
         return at::adaptive_avg_pool2d(image(x[0]), {1, 2}).expand({2, 3, 2, 2}).reshape({4, 6});
       }},
      {"upsample", 1,
       [](M&, X x) -> T { return at::upsample_nearest1d(x[0].narrow(1, 0, 3).unsqueeze(0), {6}).squeeze(0); }},
      {"upsample_bilinear", 1,
       [](M&, X x) -> T {
         return at::upsample_bilinear2d(image(x[0]).narrow(3, 0, 1), {2, 2}, false).reshape({4, 6});
       }},
      {"reflection_pad", 1,
       [](M&, X x) -> T {
         return at::reflection_pad1d(x[0].narrow(1, 1, 4), {1, 1});
       }},
      {"layer_norm", 2, [](M&, X x) -> T { return at::layer_norm(x[0], {6}, x[1].select(0, 0), x[1].select(0, 1)); }},
      {"group_norm", 1,
       [](M&, X x) -> T {
         return at::group_norm(x[0].reshape({2, 4, 3}), 2).reshape({4, 6});
       }},
      {"batch_norm", 2,
       [](M& m, X x) -> T {
         return at::batch_norm(x[0], row(x[1], 0), row(x[1], 1), m.buffers->mean, m.buffers->variance,
                               /*training=*/true, 0.1, 1e-5, false);
       }},
      {"batch_norm eval", 2,
       [](M& m, X x) -> T {
         return at::batch_norm(x[0], row(x[1], 0), row(x[1], 1), m.buffers->mean.clone(), m.buffers->variance.clone(),
                               /*training=*/false, 0.1, 1e-5, false)
             .tanh();
       }},
      {"batch_norm eval live", 2,
       [](M& m, X x) -> T {
         return at::batch_norm(x[0], row(x[1], 0), row(x[1], 1), m.buffers->mean, m.buffers->variance,
                               /*training=*/false, 0.1, 1e-5, false)
             .tanh();
       }},
      {"instance_norm", 1,
       [](M& m, X x) -> T {
         return at::instance_norm(x[0].reshape({2, 6, 2}), {}, {}, m.buffers->mean, m.buffers->variance, true, 0.1,
                                  1e-5, false)
             .reshape({4, 6});
       }},
      {"normalize", 1, [](M&, X x) -> T { return x[0] / x[0].norm(2, {1}, true).clamp_min(1e-3); }},
      {"glu", 2,
       [](M&, X x) -> T {
         return at::glu(at::cat({x[0], x[1]}, 1), 1);
       }},
      {"prelu", 2, [](M&, X x) -> T { return at::prelu(x[0], x[1].select(0, 0)); }},
      {"cross_entropy", 1, [](M&, X x) -> T { return x[0] * at::cross_entropy_loss(x[0], x[0].argmax(1)); }},
      {"mse_loss", 2, [](M&, X x) -> T { return x[0] * at::mse_loss(x[0], x[1]).tanh(); }},
      {"smooth_l1", 2, [](M&, X x) -> T { return x[1] * at::smooth_l1_loss(x[0], x[1]); }},
      {"bce_logits", 2,
       [](M&, X x) -> T {
         return at::binary_cross_entropy_with_logits(x[0], x[1].sigmoid(), {}, {}, at::Reduction::None);
       }},
      {"kl_div", 2,
       [](M&, X x) -> T { return at::kl_div(at::log_softmax(x[0], 1), at::softmax(x[1], 1), at::Reduction::None); }},
      {"cosine", 2, [](M&, X x) -> T { return x[0] * at::cosine_similarity(x[0], x[1], 1).unsqueeze(1); }},
      {"cdist", 2, [](M&, X x) -> T { return at::cdist(x[0], x[1]).matmul(x[0]).tanh(); }},
      {"embedding", 2, [](M&, X x) -> T { return at::embedding(x[0], (x[1] > 0).to(at::kLong).sum(1).clamp(0, 3)); }},
      {"attention", 3,
       [](M&, X x) -> T {
         const T scores = at::softmax(x[0].mm(x[1].t()) / 2.5, -1);
         return scores.mm(x[2]);
       }},
      {"cube", 1, [](M&, X x) -> T { return Cube::apply(x[0].tanh()); }},
      {"pair", 1,
       [](M&, X x) -> T {
         const auto both = Pair::apply(x[0]);
         return both[0] * both[1];
       }},
      {"constant", 1,
       [](M& m, X x) -> T {
         return x[0] * torch::tensor({0.5F, static_cast<float>(m.pick(5)), -1.0F, 2.0F}).unsqueeze(1);
       }},
      {"blob", 1,
       [](M&, X x) -> T {
         static float bytes[6] = {0.1F, -0.2F, 0.3F, -0.4F, 0.5F, -0.6F};
         return x[0] + torch::from_blob(bytes, {6}).exp();
       }},
      {"filled by hand", 1,
       [](M& m, X x) -> T {
         T mask = torch::zeros({4, 6});
         auto at = mask.accessor<float, 2>();
         at[m.pick(4)][m.pick(6)] = 1.5F;
         return x[0] * mask.mul_(2) + mask;
       }},
      {"factories", 1,
       [](M&, X x) -> T {
         return x[0] * torch::arange(6).to(at::kFloat) + torch::eye(4, 6) +
                torch::full({4, 6}, 0.1) * torch::linspace(0, 1, 6);
       }},
      {"empty filled", 1,
       [](M&, X x) -> T {
         T y = torch::empty({4, 6});
         y.slice(0, 0, 2).fill_(0.25);
         y.slice(0, 2, 4).copy_(x[0].detach().slice(0, 0, 2));
         return (x[0] * y).sin();
       }},
      {"detached", 2, [](M&, X x) -> T { return x[0].detach().sin() * x[1]; }},
      {"no grad", 2,
       [](M&, X x) -> T {
         T scale;
         {
           const at::NoGradGuard guard;
           scale = x[0].exp().clamp(0, 2);
           scale.mul_(0.5).add_(x[1].mean());
         }
         return x[1] * scale;
       }},
  };
}

}  // namespace encore::test
