// The oracle: the same computation without Encore, compared bit for bit.
#pragma once

#include <cstring>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "support/torch_pch.h"

namespace encore::test {

/// True if the two are equal in type, shape and every bit (so that NaN equals itself and 0.0 differs from -0.0).
bool same_bits(const at::Tensor& a, const at::Tensor& b);

/// What a step leaves behind: outputs, gradients of the leaves, state that changed, the generator.
struct Outcome {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> names;
  at::Tensor generator;

  void add(std::string name, const at::Tensor& tensor);
};

/// Empty if equal; otherwise says where they differ.
std::string difference(const Outcome& plain, const Outcome& encore);

/// How a function is run: as it is, or checkpointed in one way or another.
struct Mode {
  std::string name;
  bool checkpointed = true;
  CheckpointOptions options;
  std::optional<Policy> around;  // the whole step runs in a Scope with this policy
};
std::ostream& operator<<(std::ostream& out, const Mode& mode);

Mode plain();
/// The ways in which a checkpoint may bring its values back: kReplay and kRerun, with each determinism check, alone and
/// inside scopes that keep or drop what lies around it.
std::vector<Mode> all_modes();

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

/// Calls f under the mode.
Tensors apply(const Mode& mode, const Function& f, const Tensors& inputs);

/// A test that is run once a mode against the plain run.
class EveryMode : public ::testing::TestWithParam<Mode> {
 protected:
  /// Seeds, makes inputs, runs `step` plainly and under the mode, and compares what it returns and the inputs'
  /// gradients.
  void expect_same(const std::function<Tensors()>& make_inputs,
                   const std::function<Outcome(const Mode&, Tensors&)>& step);
  /// The common case: sum of all floating outputs of f, backward once.
  void expect_same(const std::function<Tensors()>& make_inputs, const Function& f);

  bool replays() const { return GetParam().options.recompute == Recompute::kReplay; }

  /// Where the mode has a scope around the step, kReplay must have dropped something: a checkpoint that kept everything
  /// would pass every comparison. A test whose function saves nothing that could be dropped sets this to false.
  bool expects_drops_ = true;
};

/// A leaf of normal random numbers that requires a gradient.
at::Tensor leaf(at::IntArrayRef sizes);

/// The message of the Exception that `f` throws; fails the test, and is empty, if it throws nothing or something else.
template <class Exception, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Exception& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception was thrown: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// Backward of the sum of all floating-point outputs; adds outputs and gradients to the outcome.
void backward_of_sum(const Tensors& outputs, const Tensors& leaves, Outcome& outcome);

#define ENCORE_IN_EVERY_MODE(Suite)                                                        \
  INSTANTIATE_TEST_SUITE_P(Modes, Suite, ::testing::ValuesIn(::encore::test::all_modes()), \
                           [](const ::testing::TestParamInfo<::encore::test::Mode>& test) { return test.param.name; })

}  // namespace encore::test
