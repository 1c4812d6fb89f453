// Derivatives as functions: autograd on private variables.
#include <encore/transforms.h>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <encore/error.h>

#include "record/leaves.h"
#include "tape/geometry.h"

namespace encore {
namespace {

using Tensors = std::vector<at::Tensor>;

std::string describe(const at::Tensor& tensor) {
  return tensor.defined() ? tape::Geometry::of(tensor).text() : std::string("an undefined tensor");
}

/// One differentiation: private variables in place of some arguments, the function's results, their gradients.
class Differentiation {
 public:
  Differentiation(const char* who, const TensorFunction& f, Tensors arguments, const std::vector<int64_t>& argnums)
      : who_(who), caller_grad_(c10::GradMode::is_enabled()), arguments_(std::move(arguments)) {
    for (const int64_t argnum : argnums) {
      variables_.push_back(make_variable(argnum));
    }
    for (size_t i = 0; i < argnums.size(); ++i) {
      arguments_[static_cast<size_t>(argnums[i])] = variables_[i];
    }
    results_ = f(arguments_);
  }

  const Tensors& results() const { return results_; }

  /// The gradients of the results with the given weights. Called once: it uses the graph up.
  Tensors gradients(const Tensors& weights) {
    find_outside_leaves();
    Tensors roots;
    Tensors root_weights;
    for (size_t i = 0; i < results_.size(); ++i) {
      if (weights[i].defined() && results_[i].defined() && results_[i].requires_grad()) {
        roots.push_back(results_[i]);
        root_weights.push_back(weights[i]);
      }
    }
    Tensors gradients(variables_.size());
    if (!roots.empty()) {
      gradients = torch::autograd::grad(roots, variables_, root_weights, /*retain_graph=*/further_,
                                        /*create_graph=*/further_, /*allow_unused=*/true);
    }
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) {
        gradients[i] = at::zeros_like(variables_[i].detach());
      }
    }
    return gradients;
  }

  /// The results as the caller gets them: with history only where he could use it.
  Tensors values() const {
    if (further_) {
      return results_;
    }
    Tensors values;
    for (const at::Tensor& result : results_) {
      values.push_back(result.defined() ? result.detach() : result);
    }
    return values;
  }

 private:
  at::Tensor make_variable(int64_t argnum) {
    const std::string place = std::string(who_) + ": argument " + std::to_string(argnum);
    if (argnum >= static_cast<int64_t>(arguments_.size())) {
      throw InvalidArgument(place + " is out of range, the function was called with " +
                            std::to_string(arguments_.size()) + " arguments");
    }
    const at::Tensor& argument = arguments_[static_cast<size_t>(argnum)];
    if (!argument.defined()) {
      throw InvalidArgument(place + " is an undefined tensor");
    }
    if (!argument.is_floating_point() && !argument.is_complex()) {
      throw InvalidArgument(place + " is " + describe(argument) +
                            ", which has no derivatives; convert it to a floating-point type, or leave it out");
    }
    if (caller_grad_ && argument.requires_grad()) {
      return argument.view_as(argument);  // somebody outside may differentiate the result
    }
    at::Tensor variable = argument.is_inference() ? argument.clone() : argument.detach();
    variable.set_requires_grad(true);
    own_leaves_.push_back(variable.unsafeGetTensorImpl());
    return variable;
  }

  /// Whether the results depend on anything but our own variables: only then can their derivatives be of use.
  void find_outside_leaves() {
    if (!caller_grad_) {
      return;
    }
    record::for_each_leaf(results_, [&](torch::autograd::AccumulateGrad& leaf) {
      further_ = further_ || std::find(own_leaves_.begin(), own_leaves_.end(), leaf.variable.unsafeGetTensorImpl()) ==
                                 own_leaves_.end();
    });
  }

  const char* who_;
  bool caller_grad_;  // before the guards: leaving inference mode turns gradients on
  c10::InferenceMode no_inference_{false};
  at::AutoGradMode grad_{true};
  Tensors arguments_;
  Tensors variables_;
  std::vector<const c10::TensorImpl*> own_leaves_;
  Tensors results_;
  bool further_ = false;
};

void check_function(const char* who, const TensorFunction& f) {
  if (!f) {
    throw InvalidArgument(std::string(who) + ": the function is empty");
  }
}

void check_argnums(const char* who, const std::vector<int64_t>& argnums) {
  if (argnums.empty()) {
    throw InvalidArgument(std::string(who) + ": no argument to differentiate by; give at least one index");
  }
  for (size_t i = 0; i < argnums.size(); ++i) {
    if (argnums[i] < 0) {
      throw InvalidArgument(std::string(who) + ": index " + std::to_string(argnums[i]) +
                            " is out of range; indices count from 0");
    }
    if (std::find(argnums.begin(), argnums.begin() + static_cast<std::ptrdiff_t>(i), argnums[i]) !=
        argnums.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw InvalidArgument(std::string(who) + ": index " + std::to_string(argnums[i]) + " is given twice");
    }
  }
}

/// Weight 1 for the first result, nothing for the rest.
Tensors weights_of_scalar(const char* who, const Tensors& results) {
  if (results.empty()) {
    throw InvalidArgument(std::string(who) + ": the function returned nothing; its first result must be a scalar");
  }
  const at::Tensor& scalar = results.front();
  if (!scalar.defined() || scalar.numel() != 1 || !scalar.is_floating_point()) {
    throw InvalidArgument(std::string(who) + ": the function's first result is " + describe(scalar) +
                          "; it must be a real scalar. Sum it, or use vjp");
  }
  Tensors weights(results.size());
  weights.front() = at::ones_like(scalar);
  return weights;
}

std::pair<Tensors, Tensors> differentiate(const char* who, const TensorFunction& f, const std::vector<int64_t>& argnums,
                                          const Tensors& arguments) {
  Differentiation differentiation(who, f, arguments, argnums);
  Tensors gradients = differentiation.gradients(weights_of_scalar(who, differentiation.results()));
  return {differentiation.values(), std::move(gradients)};
}

}  // namespace

TensorFunction grad(TensorFunction f, std::vector<int64_t> argnums) {
  check_function("grad", f);
  check_argnums("grad", argnums);
  return [f = std::move(f), argnums = std::move(argnums)](const Tensors& arguments) {
    return differentiate("grad", f, argnums, arguments).second;
  };
}

ValueAndGradFunction value_and_grad(TensorFunction f, std::vector<int64_t> argnums) {
  check_function("value_and_grad", f);
  check_argnums("value_and_grad", argnums);
  return [f = std::move(f), argnums = std::move(argnums)](const Tensors& arguments) {
    return differentiate("value_and_grad", f, argnums, arguments);
  };
}

std::pair<Tensors, Tensors> vjp(const TensorFunction& f, const Tensors& primals, const Tensors& cotangents) {
  check_function("vjp", f);
  if (primals.empty()) {
    throw InvalidArgument("vjp: no primal; give at least one tensor");
  }
  std::vector<int64_t> all(primals.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<int64_t>(i);
  }
  Differentiation differentiation("vjp", f, primals, all);
  const Tensors& results = differentiation.results();
  if (cotangents.size() != results.size()) {
    throw InvalidArgument("vjp: " + std::to_string(cotangents.size()) + " cotangents for " +
                          std::to_string(results.size()) + " results; give one for each");
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const bool fits =
        !cotangents[i].defined() ||
        (results[i].defined() && (results[i].is_floating_point() || results[i].is_complex()) &&
         cotangents[i].sizes() == results[i].sizes() && cotangents[i].scalar_type() == results[i].scalar_type());
    if (!fits) {
      throw InvalidArgument("vjp: cotangent " + std::to_string(i) + " is " + describe(cotangents[i]) +
                            ", the result is " + describe(results[i]));
    }
  }
  Tensors gradients = differentiation.gradients(cotangents);
  return {differentiation.values(), std::move(gradients)};
}

}  // namespace encore
