// Settings under which ops ran, and worlds that are open when backward runs: values come back as they were.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <torch/library.h>
#include <torch/version.h>

#include "support/oracle.h"

namespace encore::test {
namespace {

/// Whether float products may be computed in a type with fewer digits.
bool uses_fewer_digits() {
  const auto& context = at::globalContext();
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 10)
  return context.float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL) == at::Float32Precision::BF16;
#else
  return context.float32MatmulPrecision() == at::Float32MatmulPrecision::MEDIUM;
#endif
}

/// The tensor times a number that says under which settings the op ran.
at::Tensor asks(const at::Tensor& tensor) {
  const auto& context = at::globalContext();
  const int number = (context.deterministicAlgorithms() ? 1 : 0) + (context.deterministicAlgorithmsWarnOnly() ? 2 : 0) +
                     (context.userEnabledMkldnn() ? 4 : 0) + (uses_fewer_digits() ? 8 : 0) +
                     100 * at::get_num_threads();
  return tensor * number;
}

TORCH_LIBRARY(encore_world, m) {
  m.def("asks(Tensor tensor) -> Tensor");
}
TORCH_LIBRARY_IMPL(encore_world, CPU, m) {
  m.impl("asks", asks);
}

at::Tensor call_asks(const at::Tensor& tensor) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("encore_world::asks", "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(tensor);
}

using World = EveryMode;

/// What `change` does holds for forward only; `back` undoes it.
Outcome forward_under(const Mode& mode, Tensors& x, const Function& f, const std::function<void()>& change,
                      const std::function<void()>& back) {
  Outcome outcome;
  change();
  Tensors y;
  try {
    y = apply(mode, f, x);
  } catch (...) {
    back();
    throw;
  }
  back();
  backward_of_sum(y, x, outcome);
  return outcome;
}

TEST_P(World, OneDnnOff) {
  auto& context = at::globalContext();
  expect_same(
      [] {
        return Tensors{leaf({2, 5, 19, 19}), leaf({7, 5, 3, 3})};
      },
      [&](const Mode& mode, Tensors& x) {
        return forward_under(
            mode, x, [](const Tensors& in) { return Tensors{torch::conv2d(in[0], in[1]).sin().exp()}; },
            [&] { context.setUserEnabledMkldnn(false); }, [&] { context.setUserEnabledMkldnn(true); });
      });
  EXPECT_TRUE(context.userEnabledMkldnn());
}

TEST_P(World, EverySwitchThatAKernelMayAskFor) {
  auto& context = at::globalContext();
  const int threads = at::get_num_threads();
  expect_same(
      [] {
        return Tensors{leaf({4, 4})};
      },
      [&](const Mode& mode, Tensors& x) {
        return forward_under(
            mode, x, [](const Tensors& in) { return Tensors{(in[0].exp() * call_asks(in[0].detach())).sin()}; },
            [&] {
              context.setDeterministicAlgorithms(true, true);
              context.setFloat32MatmulPrecision("medium");
              context.setUserEnabledMkldnn(false);
              at::set_num_threads(7);
            },
            [&] {
              context.setDeterministicAlgorithms(false, false);
              context.setFloat32MatmulPrecision("highest");
              context.setUserEnabledMkldnn(true);
              at::set_num_threads(threads);
            });
      });
  EXPECT_FALSE(context.deterministicAlgorithms());
  EXPECT_FALSE(uses_fewer_digits());
  EXPECT_EQ(context.float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
  EXPECT_TRUE(context.userEnabledMkldnn());
  EXPECT_EQ(at::get_num_threads(), threads);
}

TEST_P(World, ADefaultTypeOfTheForwardOnly) {
  expect_same(
      [] {
        return Tensors{leaf({8, 8})};
      },
      [&](const Mode& mode, Tensors& x) {
        return forward_under(
            mode, x, [](const Tensors& in) { return Tensors{(in[0].exp() * torch::arange(0.0, 8.0).mul(1.1)).sin()}; },
            [] { torch::set_default_dtype(caffe2::TypeMeta::Make<double>()); },
            [] { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); });
      });
}

TEST_P(World, ADefaultTypeSwitchedInsideTheFunction) {
  expect_same(
      [] {
        return Tensors{leaf({8, 8})};
      },
      [](const Tensors& in) {
        torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
        const at::Tensor factor = torch::zeros({8, 8}) + 0.3;
        torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
        return Tensors{(in[0].exp() * factor).sin()};
      });
}

TEST_P(World, DenormalNumbersFlushedInForward) {
  if (!at::globalContext().setFlushDenormal(false)) {
    GTEST_SKIP() << "this processor can't flush denormal numbers";
  }
  expect_same(
      [] {
        return Tensors{leaf({8, 8})};
      },
      [&](const Mode& mode, Tensors& x) {
        return forward_under(
            mode, x,
            [](const Tensors& in) {
              return Tensors{((in[0].abs() + 1) * 1e-39F * in[0].exp()).mul(1e38F).sin().exp()};
            },
            [] { at::globalContext().setFlushDenormal(true); }, [] { at::globalContext().setFlushDenormal(false); });
      });
}

/// While its key is included, exp gives twice what it gives.
void doubles_exp(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::TESTING_ONLY_GenericMode);
  op.callBoxed(stack);
  if (op.schema().name() == "aten::exp") {
    stack->back() = stack->back().toTensor() * 2;
  }
}
TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&doubles_exp>());
}

/// Forward as ever; what Guard does is open while backward runs.
template <class Guard, class... Args>
Outcome backward_under(const Mode& mode, Tensors& x, Args... args) {
  Outcome outcome;
  const Tensors y = apply(
      mode, [](const Tensors& in) { return Tensors{torch::dropout(in[0].exp().sin(), 0.5, true).exp()}; }, x);
  const at::Tensor cotangent = torch::arange(64).view({8, 8}).to(at::kFloat);
  at::Tensor gradient;
  {
    const Guard guard(args...);
    gradient = torch::autograd::grad({y[0]}, {x[0]}, {cotangent})[0];
  }
  outcome.add("gradient", gradient.clone());
  return outcome;
}

Tensors leaf_of_backward() {
  return {leaf({8, 8})};
}

TEST_P(World, BackwardInInferenceMode) {
  expect_same(leaf_of_backward,
              [](const Mode& mode, Tensors& x) { return backward_under<c10::InferenceMode>(mode, x, true); });
}

TEST_P(World, BackwardBelowAutograd) {
  expect_same(leaf_of_backward,
              [](const Mode& mode, Tensors& x) { return backward_under<at::AutoDispatchBelowAutograd>(mode, x); });
}

TEST_P(World, BackwardWithoutGradMode) {
  expect_same(leaf_of_backward, [](const Mode& mode, Tensors& x) { return backward_under<at::NoGradGuard>(mode, x); });
}

TEST_P(World, BackwardInsideADispatchMode) {
  expect_same(leaf_of_backward, [](const Mode& mode, Tensors& x) {
    return backward_under<c10::impl::IncludeDispatchKeyGuard>(mode, x, c10::DispatchKey::TESTING_ONLY_GenericMode);
  });
}

#if TORCH_VERSION_MAJOR == 1
/// Backward of y for three cotangents at once, as functorch's vmap(vjp) runs it.
TEST_P(World, BackwardInsideAVmap) {
  expect_same(
      [] {
        return Tensors{leaf({4, 5})};
      },
      [](const Mode& mode, Tensors& x) {
        Outcome outcome;
        const Tensors y = apply(
            mode, [](const Tensors& in) { return Tensors{torch::dropout(in[0].exp().sin(), 0.5, true).cos()}; }, x);
        const at::Tensor cotangents = torch::arange(60).view({3, 4, 5}).to(at::kFloat);
        const int64_t level = at::functorch::initAndPushDynamicLayer(at::functorch::TransformType::Vmap, 3,
                                                                     at::functorch::RandomnessType::Error);
        at::Tensor gradient;
        try {
          const at::Tensor batched = at::functorch::makeBatched(cotangents, 0, level);
          gradient = torch::autograd::grad({y[0]}, {x[0]}, {batched})[0];
          auto* wrapped = at::functorch::maybeGetBatchedImpl(gradient);
          gradient = wrapped->value().movedim(wrapped->bdim(), 0);
        } catch (...) {
          at::functorch::popDynamicLayerAndDeleteMetadata();
          throw;
        }
        at::functorch::popDynamicLayerAndDeleteMetadata();
        outcome.add("gradients", gradient);
        return outcome;
      });
}
#endif

ENCORE_IN_EVERY_MODE(World);

}  // namespace
}  // namespace encore::test
