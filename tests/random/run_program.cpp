// Runs a program plainly or with Encore, and compares the two.
#include <set>
#include <sstream>

#include "random/program.h"
#include "support/leaks.h"

namespace encore::test {
namespace {

std::set<std::string>& op_names() {
  static std::set<std::string> names;
  return names;
}

Policy policy_of(int number) {
  switch (number) {
    case 1:
      return keep_matmuls();
    case 2:
      return larger_than(96);
    case 3:
      return keep_all();
    case 4:
      return keep_ops({"aten::tanh", "aten::mul", "aten::add"});
    case 5:
      return pack_masks();
    case 6:
      return Policy([](const ValueInfo&) { return std::nullopt; }, Action::kPack);
    default:
      return drop_all();
  }
}

void collect(const std::vector<Statement>& body, std::set<size_t>& defined, std::set<size_t>& used) {
  for (const Statement& statement : body) {
    for (const size_t operand : statement.operands) {
      if (defined.count(operand) == 0) {
        used.insert(operand);
      }
    }
    if (statement.block == BlockKind::kNone) {
      defined.insert(statement.result);
    } else {
      collect(statement.body, defined, used);
    }
  }
}

class Interpreter {
 public:
  Interpreter(const Program& program, Buffers& buffers, bool with_encore)
      : program_(program), buffers_(buffers), with_encore_(with_encore) {}

  void run(const std::vector<Statement>& statements, Tensors& variables, int scopes) const {
    for (const Statement& statement : statements) {
      switch (statement.block) {
        case BlockKind::kNone:
          run_op(statement, variables);
          break;
        case BlockKind::kMark:
          if (with_encore_ && scopes > 0) {
            checkpoint(variables[statement.operands[0]]);
          }
          break;
        case BlockKind::kCheckpoint:
          run_checkpoint(statement, variables, scopes);
          break;
        case BlockKind::kScope: {
          std::optional<Scope> scope;
          if (with_encore_) {
            scope.emplace(policy_of(statement.policy));
          }
          run(statement.body, variables, scopes + 1);
          break;
        }
      }
    }
  }

 private:
  void run_op(const Statement& statement, Tensors& variables) const {
    const OpKind& op = all_ops()[statement.op];
    Tensors operands;
    for (const size_t operand : statement.operands) {
      operands.push_back(op.any ? variables[operand] : as_matrix(variables[operand]));
    }
    Machine machine{&buffers_, statement.choice};
    at::Tensor result = op.run(machine, operands);
    TORCH_CHECK(op.any || (result.sizes() == at::IntArrayRef({kRows, kColumns}) && result.scalar_type() == at::kFloat),
                op.name, " gave ", result.sizes());
    variables[statement.result] = result;
  }

  void run_checkpoint(const Statement& statement, Tensors& variables, int scopes) const {
    std::set<size_t> defined;
    std::set<size_t> used;
    collect(statement.body, defined, used);
    used.insert(0);  // a checkpoint has at least one input
    Tensors inputs;
    for (const size_t id : used) {
      inputs.push_back(variables[id]);
    }
    const Interpreter self = *this;  // a rerun comes when this call is long over
    const auto f = [self, &statement, defined, used, scopes](const Tensors& in) {
      Tensors local(self.program_.num_variables);
      size_t next = 0;
      for (const size_t id : used) {
        local[id] = in[next++];
      }
      self.run(statement.body, local, scopes + 1);
      Tensors out = {in[0] * 1};
      for (const size_t id : defined) {
        out.push_back(local[id]);
      }
      return out;
    };
    Mode mode;
    mode.checkpointed = with_encore_;
    mode.options.recompute = statement.recompute;
    mode.options.determinism_check = statement.check;
    mode.options.policy = policy_of(statement.policy);
    mode.options.early_stop = statement.early_stop;
    const Tensors outputs = apply(mode, f, inputs);
    size_t next = 1;
    for (const size_t id : defined) {
      variables[id] = outputs[next++];
    }
  }

  const Program& program_;
  Buffers& buffers_;
  bool with_encore_;
};

at::Tensor loss_of(const Program& program, const Tensors& variables) {
  at::Tensor loss = variables[0].sum() * 0;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    at::Tensor output = variables[program.outputs[i]];
    if (!output.is_floating_point()) {
      output = output.to(at::kFloat);
    }
    loss = loss + (output * output).sum() * (0.1 + 0.05 * static_cast<double>(i)) + output.sum();
  }
  return loss;
}

void run_backward(BackwardKind kind, const at::Tensor& loss, const Tensors& leaves, Outcome& outcome) {
  switch (kind) {
    case BackwardKind::kTwice:
      loss.backward({}, /*retain_graph=*/true);
      loss.backward();
      break;
    case BackwardKind::kSubset: {
      const auto grads = torch::autograd::grad({loss}, {leaves[1]}, {}, /*retain_graph=*/true, false, true);
      outcome.add("subset gradient", grads[0]);
      break;
    }
    case BackwardKind::kDouble: {
      const auto grads = torch::autograd::grad({loss}, {leaves[0], leaves[1]}, {}, true, /*create_graph=*/true, true);
      at::Tensor second = loss * 0;
      for (const auto& grad : grads) {
        if (grad.defined()) {
          second = second + grad.sin().sum();
        }
      }
      second.backward();
      break;
    }
    default:
      loss.backward();
  }
}

void note_op_names(const std::string& dump) {
  std::istringstream lines(dump);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t start = line.find("aten::");
    if (start != std::string::npos) {
      const std::string name = line.substr(start, line.find('(', start) - start);
      op_names().insert(name.substr(0, name.find('.')));
    }
  }
}

}  // namespace

const std::vector<std::string>& recorded_op_names() {
  static std::vector<std::string> names;
  names.assign(op_names().begin(), op_names().end());
  return names;
}

BudgetTally& budget_tally() {
  static BudgetTally tally;
  return tally;
}

namespace {

enum class Way { kPlain, kEncore };

/// Runs the program from its seed, within the budget if there is one. Throws what the program throws.
Outcome run_program(const Program& program, Way way, MemoryBudget* budget = nullptr, int64_t* peak_bytes = nullptr) {
  torch::manual_seed(program.seed);
  const bool with_encore = way == Way::kEncore;
  Outcome outcome;
  Buffers buffers{torch::zeros({kColumns}), torch::ones({kColumns})};
  const at::Tensor hidden = torch::randn({kRows, kColumns}).requires_grad_();
  const Tensors leaves = {torch::randn({kRows, kColumns}).requires_grad_(),
                          torch::randn({kRows, kColumns}).requires_grad_(), torch::randn({kRows, kColumns}), hidden};
  {
    const MemoryScope memory;
    std::optional<MemoryBudget::Step> step;
    if (budget != nullptr) {
      step.emplace(budget->step());
    }
    Tensors variables(program.num_variables);
    std::copy(leaves.begin(), leaves.begin() + 3, variables.begin());
    variables[2] = leaves[2].clone();
    variables[3] = hidden * 1;  // from outside, but no leaf
    const bool inside = program.backward == BackwardKind::kInsideScope;
    std::optional<Scope> scope;
    if (inside && with_encore) {
      scope.emplace(drop_all(), "step");
    }
    Interpreter(program, buffers, with_encore).run(program.statements, variables, inside ? 1 : 0);
    for (const size_t output : program.outputs) {
      outcome.add("variable " + std::to_string(output), variables[output]);
    }
    const at::Tensor loss = loss_of(program, variables);
    run_backward(program.backward, loss, leaves, outcome);
    if (scope) {
      note_op_names(scope->dump());
      scope->end();
    }
    if (peak_bytes != nullptr) {
      *peak_bytes = memory.peak_bytes();
    }
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    outcome.add("gradient " + std::to_string(i), leaves[i].grad());
  }
  outcome.add("running mean", buffers.mean);
  outcome.add("running variance", buffers.variance);
  outcome.generator = at::detail::getDefaultCPUGenerator().get_state();
  return outcome;
}

/// Whether plain runs differ from each other: some kernels of LibTorch read bytes that nobody has set. Between two runs
/// freed blocks are filled with something else.
bool is_unsteady(const Program& program, const Outcome& expected) {
  constexpr int kRuns = 20;
  for (int run = 0; run < kRuns; ++run) {
    Tensors litter;
    for (int64_t size = 1; size < 200; ++size) {
      litter.push_back(at::full({size}, run + 0.5));
    }
    litter.clear();
    if (!difference(expected, run_program(program, Way::kPlain)).empty()) {
      return true;
    }
  }
  return false;
}

/// The autograd engine holds what is left of a backward that threw until its thread runs the next one.
void drop_tasks_of_failed_backward() {
  torch::ones({1}).requires_grad_().sum().backward();
}

/// Steps within a part of `plain_peak`, which was reached from `rest`; a larger one after each refusal, so that most
/// run in little more than the least that would do. The first of each is online, the others follow a plan.
std::string check_within_budget(const Program& program, const Outcome& expected, int64_t rest, int64_t plain_peak) {
  constexpr int kSteps = 3;
  constexpr int kEnough = 300;  // what the tape itself holds counts too
  int percent = program.budget_percent;
  MemoryBudget budget(plain_peak);
  budget.leave_alone_below(1);
  int64_t named = 0;  // by the last refusal
  for (int step = 0; step < kSteps; ++step) {
    const int64_t limit = std::max(named, rest + (plain_peak - rest) * percent / 100);
    budget.set_limit(limit);
    const std::string where = " in step " + std::to_string(step) + " within " + std::to_string(limit) + " bytes";
    try {
      int64_t peak = 0;
      const std::string found = difference(expected, run_program(program, Way::kEncore, &budget, &peak));
      if (!found.empty()) {
        return found + where;
      }
      if (peak > limit) {
        return "the peak is " + std::to_string(peak) + where;
      }
      const StepReport report = budget.report();
      budget_tally().planned += report.mode == StepMode::kPlanned ? 1 : 0;
      budget_tally().packed += report.values_packed;
      budget_tally().ops_replayed += report.ops_replayed;
    } catch (const BudgetError& error) {
      ++budget_tally().refused;
      drop_tasks_of_failed_backward();
      if (named > 0 || percent > kEnough) {
        return error.what() + where + (named > 0 ? ", which was named before" : ", which should do");
      }
      named = error.figures().least_is_known ? error.figures().least_bytes : 0;
      percent += 10;
      step = -1;
    } catch (const std::exception& error) {
      // Out of script code a refusal comes as an error of LibTorch's.
      if (!budget.refusal().has_value() || percent > kEnough) {
        throw;
      }
      ++budget_tally().refused;
      drop_tasks_of_failed_backward();
      percent += 10;
      step = -1;
    }
  }
  return "";
}

}  // namespace

std::string check_program(const Program& program) {
  Outcome expected;
  int64_t live = 0;
  int64_t peak = 0;
  bool leaks = false;  // autograd itself leaves a cycle where an in-place op saves what it writes to
  try {
    const IgnoreLeaks plain;
    expected = run_program(program, Way::kPlain);
    live = live_tensor_bytes();
    const std::string unsteady = difference(expected, run_program(program, Way::kPlain, nullptr, &peak));
    if (!unsteady.empty()) {
      return "unsteady: " + unsteady;
    }
    leaks = live_tensor_bytes() != live;
    live = live_tensor_bytes();
  } catch (const std::exception&) {
    return "skip";
  }
  if (leaks && program.budget_percent > 0) {
    return "skip";  // each step would begin with less
  }
  std::optional<IgnoreLeaks> as_plainly;
  if (leaks) {
    as_plainly.emplace();
  }
  try {
    const std::string found = program.budget_percent > 0 ? check_within_budget(program, expected, live, peak)
                                                         : difference(expected, run_program(program, Way::kEncore));
    if (!found.empty()) {
      const IgnoreLeaks plain;
      return (is_unsteady(program, expected) ? "unsteady: " : "") + found;
    }
  } catch (const ChangedError& error) {
    return std::string("refused: ") + error.what();
  } catch (const std::exception& error) {
    const std::string what = error.what();
    return "encore threw: " + what.substr(0, what.find("\nframe"));
  }
  const int64_t after = live_tensor_bytes();
  return leaks || after == live ? ""
                                : "live bytes should be " + std::to_string(live) + " and are " + std::to_string(after);
}

}  // namespace encore::test
