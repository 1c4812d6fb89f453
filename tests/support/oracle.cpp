// Bit-for-bit comparison of two runs.
#include "support/oracle.h"

#include <cstdlib>

namespace encore::test {

// Which step is the first to follow a plan must not depend on the clock; tests/budget/background_test.cpp has the rest.
const bool g_waits_for_plans = setenv("ENCORE_WAIT_FOR_PLANS", "1", /*overwrite=*/0) == 0;

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) {
    return false;
  }
  if (!a.defined()) {
    return true;
  }
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) {
    return false;
  }
  const at::Tensor x = a.detach().resolve_conj().resolve_neg().contiguous();
  const at::Tensor y = b.detach().resolve_conj().resolve_neg().contiguous();
  return x.numel() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

void Outcome::add(std::string name, const at::Tensor& tensor) {
  names.push_back(std::move(name));
  tensors.push_back(tensor.defined() ? tensor.detach().clone() : tensor);
}

std::string difference(const Outcome& plain, const Outcome& encore) {
  if (plain.tensors.size() != encore.tensors.size()) {
    return "plain gave " + std::to_string(plain.tensors.size()) + " tensors, encore " +
           std::to_string(encore.tensors.size());
  }
  for (size_t i = 0; i < plain.tensors.size(); ++i) {
    if (!same_bits(plain.tensors[i], encore.tensors[i])) {
      return plain.names[i] + " differs";
    }
  }
  if (!same_bits(plain.generator, encore.generator)) {
    return "the generator's state differs";
  }
  return "";
}

std::ostream& operator<<(std::ostream& out, const Mode& mode) {
  return out << mode.name;
}

Mode plain() {
  return {"plain", false, {}, {}};
}

std::vector<Mode> all_modes() {
  std::vector<Mode> modes;
  for (const Recompute recompute : {Recompute::kReplay, Recompute::kRerun}) {
    const std::string kind = recompute == Recompute::kReplay ? "Replay" : "Rerun";
    Mode none{kind + "Unchecked", true, {}, {}};
    none.options.recompute = recompute;
    none.options.determinism_check = DeterminismCheck::kNone;
    Mode values{kind + "Values", true, {}, {}};
    values.options.recompute = recompute;
    values.options.determinism_check = DeterminismCheck::kValues;
    modes.push_back(none);
    modes.push_back(values);
  }
  Mode late{"RerunWhole", true, {}, {}};
  late.options.recompute = Recompute::kRerun;
  late.options.early_stop = false;
  modes.push_back(late);
  Mode in_keeping{"ReplayInKeepingScope", true, {}, keep_all()};
  modes.push_back(in_keeping);
  Mode in_dropping{"ReplayInDroppingScope", true, {}, drop_all()};
  in_dropping.options.determinism_check = DeterminismCheck::kValues;
  modes.push_back(in_dropping);
  Mode rerun_in_dropping{"RerunInDroppingScope", true, {}, drop_all()};
  rerun_in_dropping.options.recompute = Recompute::kRerun;
  modes.push_back(rerun_in_dropping);
  return modes;
}

at::Tensor leaf(at::IntArrayRef sizes) {
  return torch::randn(sizes).requires_grad_();
}

Tensors apply(const Mode& mode, const Function& f, const Tensors& inputs) {
  return mode.checkpointed ? checkpoint(mode.options, f, inputs) : f(inputs);
}

void backward_of_sum(const Tensors& outputs, const Tensors& leaves, Outcome& outcome) {
  at::Tensor loss;
  for (size_t i = 0; i < outputs.size(); ++i) {
    outcome.add("output " + std::to_string(i), outputs[i]);
    if (outputs[i].is_floating_point() && outputs[i].requires_grad()) {
      const at::Tensor term = outputs[i].sum().to(at::kDouble);
      loss = loss.defined() ? loss + term : term;
    }
  }
  if (loss.defined()) {
    loss.backward();
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    outcome.add("gradient " + std::to_string(i), leaves[i].grad());
  }
}

void EveryMode::expect_same(const std::function<Tensors()>& make_inputs,
                            const std::function<Outcome(const Mode&, Tensors&)>& step) {
  const auto run = [&](const Mode& mode) {
    torch::manual_seed(7);
    Tensors inputs = make_inputs();
    std::optional<Scope> scope;
    if (mode.around) {
      scope.emplace(*mode.around);
    }
    Outcome outcome = step(mode, inputs);
    if (scope && mode.options.recompute == Recompute::kReplay) {
      EXPECT_EQ(scope->stats().values_dropped > 0, expects_drops_) << scope->dump();
    }
    outcome.generator = at::detail::getDefaultCPUGenerator().get_state();
    return outcome;
  };
  const Outcome expected = run(plain());
  const int64_t live = live_tensor_bytes();
  {
    const Outcome actual = run(GetParam());
    EXPECT_EQ(difference(expected, actual), "");
  }
  EXPECT_EQ(live_tensor_bytes(), live) << "something stays alive after the step";
}

void EveryMode::expect_same(const std::function<Tensors()>& make_inputs, const Function& f) {
  expect_same(make_inputs, [&](const Mode& mode, Tensors& inputs) {
    Outcome outcome;
    backward_of_sum(apply(mode, f, inputs), inputs, outcome);
    return outcome;
  });
}

}  // namespace encore::test
