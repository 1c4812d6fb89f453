// The vocabulary: what careful code does not do. Bytes changed behind autograd's back, threads inside a function,
// operators with every kind of alias, settings that change, values of all sizes and types, updates and script code
// inside.
#include <future>
#include <thread>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include "random/program.h"
#include "support/schemas.h"

namespace encore::test {
namespace {

using T = at::Tensor;
using M = Machine;
using X = const Tensors&;

/// The matrix again and again, up to 3 MB of it.
T large(M& m, const T& x) {
  static constexpr int64_t kTimes[] = {1, 3, 16, 128};
  return x.repeat({kTimes[m.pick(4)], 2 * kTimes[m.pick(4)]});
}
/// A matrix out of a large one, to which every element of it adds.
T small(const T& x) {
  return x.narrow(0, x.size(0) - 4, 4).narrow(1, x.size(1) - 6, 6).tanh() + x.to(at::kDouble).mean().to(at::kFloat);
}

/// Settings of the process that kernels ask for, while it lives.
class OtherSettings {
 public:
  explicit OtherSettings(M& m) : threads_(at::get_num_threads()) {
    auto& context = at::globalContext();
    const int threads = 1 + static_cast<int>(m.pick(3));
#ifndef __SANITIZE_THREAD__  // to which libgomp's barriers order nothing
    at::set_num_threads(threads);
#endif
    (void)threads;
    context.setUserEnabledMkldnn(m.pick(2) == 0);
    context.setDeterministicAlgorithms(m.pick(2) == 0, true);
    torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  }
  ~OtherSettings() {
    auto& context = at::globalContext();
    torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
    context.setDeterministicAlgorithms(false, false);
    context.setUserEnabledMkldnn(true);
    at::set_num_threads(threads_);
  }
  OtherSettings(const OtherSettings&) = delete;
  OtherSettings& operator=(const OtherSettings&) = delete;

 private:
  int threads_;
};

T call_script(const T& x, const T& y) {
  static const auto unit = torch::jit::compile(R"(
def f(x, y):
    z = torch.tanh(x) * y
    if float(z.sum()) > 0.0:
        z = torch.sigmoid(z)
    return z + x
)");
  // Called again, a function runs script code as it is written.
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);
  return unit->run_method("f", x, y).toTensor();
}

std::vector<OpKind> pure_ops() {
  return {
      {"clamp through data", 1,
       [](M&, X x) -> T {
         const T y = x[0].sigmoid();
         y.data().clamp_(0.4, 0.6);
         return y * 2;
       }},
      {"element through data", 2,
       [](M& m, X x) -> T {
         const T y = x[0].tanh();
         const T z = y * x[1];
         y.data()[m.pick(4)][m.pick(6)].fill_(0.125);
         return z + y.sin();
       }},
      {"factor through data", 2,
       [](M&, X x) -> T {
         const T y = x[0].tanh().exp();
         y.data().mul_(x[1].detach().sigmoid());
         return y.sin();
       }},
      {"pointer into a factory's", 2,
       [](M& m, X x) -> T {
         const T factor = m.pick(2) == 0 ? at::ones({kRows, kColumns}) : at::full_like(x[0].detach(), 0.75);
         const T before = x[0].tanh() * factor + factor.select(0, m.pick(4));
         factor.data_ptr<float>()[m.pick(24)] = 0.5;
         return before * (x[1].sin() * factor).exp();
       }},
      {"pointer into a large factory's", 1,
       [](M& m, X x) -> T {
         const T factor = at::zeros({64, kRows, kColumns * 32});
         const T before = x[0] * factor[m.pick(64)].narrow(1, 5, kColumns);
         factor.data_ptr<float>()[m.pick(64 * 24 * 32)] = 3;
         return (before + x[0].cos() * factor[m.pick(64)].narrow(1, 7, kColumns)).sin();
       }},
      {"pointer into unset bytes", 1,
       [](M& m, X x) -> T {
         const T factor = at::empty({kRows, kColumns});
         std::fill_n(factor.data_ptr<float>(), factor.numel(), 0.5F);
         const T before = x[0].sin() * factor;
         factor.data_ptr<float>()[m.pick(24)] = 0.25;
         return before + x[0] * factor;
       }},
      {"set_data", 2,
       [](M&, X x) -> T {
         T y = x[0] + 1;
         y.set_data(x[1].detach().clone());
         return y.cos() * x[0];
       }},
      {"large", 2, [](M& m, X x) -> T { return small(large(m, x[0]).sin().exp() * large(m, x[1]).mean()); }},
      {"large dropout", 1, [](M& m, X x) -> T { return small(at::dropout(large(m, x[0]).sin(), 0.3, true)); }},
      {"large data", 1,
       [](M& m, X x) -> T {
         const T y = large(m, x[0]).sigmoid();
         y.data()[y.size(0) / 2][y.size(1) / 3].fill_(0.75);
         return small(y);
       }},
      {"one element", 1, [](M&, X x) -> T { return x[0] * x[0].mean().exp().sin().sigmoid(); }},
      {"no element", 1, [](M&, X x) -> T { return x[0] + x[0].narrow(0, 0, 0).exp().sum(); }},
      {"double", 2, [](M&, X x) -> T { return (x[0].to(at::kDouble).sin() * x[1]).exp().tanh().to(at::kFloat); }},
      {"bfloat16", 2,
       [](M&, X x) -> T { return (x[0].to(at::kBFloat16).sigmoid() * x[1].to(at::kBFloat16)).to(at::kFloat); }},
      {"complex", 2,
       [](M&, X x) -> T { return at::real(at::complex(x[0], x[1]).exp().tanh()).nan_to_num(0.5, 1, -1); }},
      {"integers", 1,
       [](M&, X x) -> T {
         const T index = (x[0] * 10).to(at::kLong).remainder(4).select(1, 0);
         return x[0].index_select(0, index.to(at::kInt)) * (x[0] > 0).to(at::kByte).sum(1, true, at::kLong);
       }},
      {"helper thread", 1,
       [](M&, X x) -> T {
         const T rows = torch::zeros({4, 6});
         const auto fill = [rows](int64_t first) {
           const at::NoGradGuard no_grad;
           for (int64_t row = first; row < 4; row += 2) {
             rows.select(0, row).fill_(0.3 * static_cast<double>(row + 1));
           }
         };
         std::thread other(fill, 0);
         fill(1);
         other.join();
         return x[0].sin() * rows;
       }},
      {"written by a thread", 1,
       [](M& m, X x) -> T {
         const T y = x[0] * 1;
         const T row = y.detach().select(0, m.pick(4));
         std::async(std::launch::async, [row] { row.mul_(0.5); }).get();
         return y.sin() * y;
       }},
      {"accumulate op", 2,
       [](M&, X x) -> T {
         T acc = x[0].detach().cos();
         const at::NoGradGuard no_grad;
         find_schema<at::Tensor&(const at::Tensor&, at::Tensor&)>("accumulate").call(x[1].detach(), acc);
         const at::AutoGradMode grad(true);
         return x[0].sin() * acc;
       }},
      {"first row op", 2,
       [](M&, X x) -> T {
         T out = x[1].detach().cos();
         find_schema<at::Tensor&(const at::Tensor&, at::Tensor&)>("first_row").call(x[0].detach(), out);
         return x[0].sin() * out;
       }},
      {"scale op", 2,
       [](M&, X x) -> T {
         T state = x[1].detach().abs();
         T y = x[0];
         for (int i = 0; i < 2; ++i) {
           y = (y * find_schema<at::Tensor(const at::Tensor&, at::Tensor&)>("scale").call(y.detach(), state)).sin();
         }
         return y * state;
       }},
      {"swap op", 2,
       [](M&, X x) -> T {
         T a = x[0].detach().cos();
         T b = x[1].detach().sin();
         find_schema<std::tuple<at::Tensor&, at::Tensor&>(at::Tensor&, at::Tensor&)>("swap_add").call(a, b);
         return (x[0] * a).sin() * b;
       }},
      {"bump op", 1,
       [](M&, X x) -> T {
         T state = x[0].detach().cos();
         find_schema<void(at::Tensor&)>("bump").call(state);
         return x[0].sin() * state;
       }},
      {"view op", 1,
       [](M&, X x) -> T {
         const T row = find_schema<at::Tensor(const at::Tensor&)>("maybe_view").call(x[0].detach());
         return x[0].sin() * row;
       }},
      {"updates inside", 2,
       [](M&, X x) -> T {
         const T w = x[1].detach().clone().requires_grad_();
         for (int i = 0; i < 3; ++i) {
           const at::AutoGradMode grad(true);
           const T loss = (x[0].detach() * w).sin().sum();
           const T gradient = torch::autograd::grad({loss}, {w})[0];
           const at::NoGradGuard no_grad;
           w.sub_(gradient * 0.1);
         }
         return x[0].sin() * w.detach();
       }},
      {"norm and its statistics", 2,
       [](M& m, X x) -> T {
         const T y = at::batch_norm(x[0], {}, {}, m.buffers->mean, m.buffers->variance, true, 0.1, 1e-5, false);
         return (y * x[1]).sin() * m.buffers->mean.clone() + x[1] * m.buffers->variance.exp();
       }},
      {"script", 2, [](M&, X x) -> T { return call_script(x[0], x[1]); }},
      {"other settings", 1,
       [](M& m, X x) -> T {
         const OtherSettings settings(m);
         const T factor = torch::linspace(0, 1, 6);
         const T y = (large(m, x[0]).sin().exp().sum(0).narrow(0, 0, 6) * 0.01).tanh() * factor;
         return (x[0] * y).to(at::kFloat);
       }},
  };
}

std::vector<OpKind> writing_ops() {
  std::vector<OpKind> ops = {
      {"data mul_", 1,
       [](M&, X x) -> T {
         x[0].data().mul_(0.9);
         return x[0].sin();
       }},
      {"data copy row", 2,
       [](M& m, X x) -> T {
         x[0].data().select(0, m.pick(4)).copy_(x[1].detach().select(0, m.pick(4)));
         return x[0] * 1;
       }},
      {"data element", 1,
       [](M& m, X x) -> T {
         x[0].data()[m.pick(4)][m.pick(6)].fill_(-0.5);
         return x[0] * 1;
       }},
      {"no grad mul_", 1,
       [](M&, X x) -> T {
         {
           const at::NoGradGuard no_grad;
           x[0].mul_(0.8);
         }
         return x[0].cos();
       }},
      {"detached add_", 2,
       [](M&, X x) -> T {
         x[0].detach().add_(x[1].detach(), 0.1);
         return x[0] * 1;
       }},
  };
  for (OpKind& op : ops) {
    op.inplace = true;
  }
  return ops;
}

}  // namespace

std::vector<OpKind> hostile_ops() {
  std::vector<OpKind> ops = pure_ops();
  const std::vector<OpKind> writing = writing_ops();
  ops.insert(ops.end(), writing.begin(), writing.end());
  return ops;
}

}  // namespace encore::test
