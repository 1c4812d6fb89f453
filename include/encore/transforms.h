// Functions of tensors into functions that compute their derivatives.
//
// The functions go from a vector of tensors to a vector of tensors. What the transforms return is a function of the
// same kind: it may be copied, stored, called any number of times and from several threads as far as `f` may be,
// transformed again (second derivatives), or wrapped in checkpoint(); and `f` may be checkpoint(g).
//
// The caller's tensors and everybody's .grad stay as they are. A result can be differentiated further if, and only if,
// it depends on a tensor outside that requires a gradient, be it an argument or captured by `f`.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <encore/export.h>

namespace encore {

using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
/// Values and gradients.
using ValueAndGradFunction =
    std::function<std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>(const std::vector<at::Tensor>&)>;

/// The gradients of f's first result with respect to the arguments `argnums`, in their order. The first result must be
/// a scalar (one element); further results are ignored. An argument that the result does not depend on has a gradient
/// of zeros.
///
/// Throws InvalidArgument at once for an empty f, for no index and for negative or repeated ones; when called, for an
/// index out of range, an argument that is not of a floating-point or complex type, and a result that is not a
/// real scalar.
ENCORE_API TensorFunction grad(TensorFunction f, std::vector<int64_t> argnums = {0});

/// The same, together with all results of f.
ENCORE_API ValueAndGradFunction value_and_grad(TensorFunction f, std::vector<int64_t> argnums = {0});

/// f's results at `primals`, and for each primal the sum over the results of cotangent times derivative. There must be
/// one cotangent for each result, of its shape and type; an undefined one counts as zeros, as it must be for results of
/// integer type. Throws InvalidArgument otherwise, and for primals that are not of a floating-point or complex type.
ENCORE_API std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>> vjp(const TensorFunction& f,
                                                                           const std::vector<at::Tensor>& primals,
                                                                           const std::vector<at::Tensor>& cotangents);

}  // namespace encore
