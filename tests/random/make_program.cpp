// From a seed to a program, and from a program to text.
#include <algorithm>
#include <sstream>

#include "random/program.h"

namespace encore::test {

const std::vector<OpKind>& all_ops() {
  static const std::vector<OpKind> ops = [] {
    std::vector<OpKind> all;
    for (const auto& group :
         {elementwise_ops(), shape_ops(), layer_ops(), inplace_ops(), random_ops(), hostile_ops(), sized_ops()}) {
      all.insert(all.end(), group.begin(), group.end());
    }
    return all;
  }();
  return ops;
}

namespace {

class Generator {
 public:
  Generator(uint64_t seed, bool hostile) : random_(seed) {
    program_.seed = seed;
    program_.hostile = hostile;
  }

  Program make() {
    program_.num_inputs = 4;
    program_.num_variables = program_.num_inputs;
    for (size_t i = 0; i < program_.num_inputs; ++i) {
      visible_.push_back(i);
    }
    program_.statements = statements(4 + below(24), 0);
    for (size_t i = 0, count = 1 + below(3); i < count; ++i) {
      // Late variables more often than early ones.
      const size_t back = std::min(below(visible_.size()), below(visible_.size()));
      program_.outputs.push_back(visible_[visible_.size() - 1 - back]);
    }
    static constexpr BackwardKind kKinds[] = {BackwardKind::kOnce,       BackwardKind::kOnce,   BackwardKind::kOnce,
                                              BackwardKind::kTwice,      BackwardKind::kSubset, BackwardKind::kDouble,
                                              BackwardKind::kInsideScope};
    program_.backward = kKinds[below(std::size(kKinds))];
    return std::move(program_);
  }

 private:
  size_t below(size_t count) { return static_cast<size_t>(random_() % count); }
  bool chance(int percent) { return below(100) < static_cast<size_t>(percent); }
  size_t any_variable() {
    const size_t back = std::min(below(visible_.size()), below(visible_.size()));
    return visible_[visible_.size() - 1 - back];
  }

  std::vector<Statement> statements(size_t count, int depth) {
    std::vector<Statement> result;
    for (size_t i = 0; i < count; ++i) {
      if (depth < 3 && chance(14)) {
        result.push_back(block(depth));
      } else if (chance(4)) {
        Statement mark;
        mark.block = BlockKind::kMark;
        mark.operands = {any_variable()};
        result.push_back(mark);
      } else {
        result.push_back(op());
      }
    }
    return result;
  }

  Statement block(int depth) {
    Statement statement;
    statement.block = chance(75) ? BlockKind::kCheckpoint : BlockKind::kScope;
    statement.recompute = chance(70) ? Recompute::kReplay : Recompute::kRerun;
    statement.check = static_cast<DeterminismCheck>(below(3));
    statement.policy = static_cast<int>(below(7));
    statement.early_stop = chance(70);
    statement.body = statements(1 + below(10), depth + 1);
    return statement;
  }

  Statement op() {
    const auto& ops = all_ops();
    Statement statement;
    static const size_t hostile = hostile_ops().size() + sized_ops().size();
    const size_t gentle = ops.size() - hostile;
    do {
      // Half of the statements, or few would meet.
      statement.op = program_.hostile && chance(50) ? gentle + below(hostile) : below(gentle);
    } while (ops[statement.op].inplace && !chance(60));
    for (int i = 0; i < ops[statement.op].arity; ++i) {
      statement.operands.push_back(any_variable());
    }
    if (ops[statement.op].inplace && statement.operands[0] < 2) {
      statement.operands[0] = 2 + below(2);  // the first two inputs are leaves with gradients
    }
    statement.choice = random_();
    statement.result = program_.num_variables++;
    visible_.push_back(statement.result);
    return statement;
  }

  std::mt19937_64 random_;
  Program program_;
  std::vector<size_t> visible_;
};

void print(std::ostream& out, const std::vector<Statement>& statements, int indent) {
  static const char* const kChecks[] = {"unchecked", "metadata", "values"};
  for (const Statement& statement : statements) {
    out << std::string(static_cast<size_t>(indent) * 2, ' ');
    switch (statement.block) {
      case BlockKind::kMark:
        out << "mark v" << statement.operands[0] << "\n";
        break;
      case BlockKind::kNone:
        out << "v" << statement.result << " = " << all_ops()[statement.op].name;
        for (const size_t operand : statement.operands) {
          out << " v" << operand;
        }
        out << "  #" << statement.choice << "\n";
        break;
      case BlockKind::kCheckpoint:
        out << "checkpoint " << (statement.recompute == Recompute::kReplay ? "replay " : "rerun ")
            << kChecks[static_cast<int>(statement.check)] << " policy " << statement.policy
            << (statement.early_stop ? "" : " whole") << "\n";
        print(out, statement.body, indent + 1);
        break;
      case BlockKind::kScope:
        out << "scope policy " << statement.policy << "\n";
        print(out, statement.body, indent + 1);
        break;
    }
  }
}

}  // namespace

Program make_program(uint64_t seed, bool hostile) {
  return Generator(seed, hostile).make();
}

void give_budget(Program& program) {
  program.budget_percent = 30 + static_cast<int>(program.seed % 5);
  if (program.backward == BackwardKind::kDouble) {
    program.backward = BackwardKind::kTwice;  // a refusal in the midst of it leaves LibTorch's own cycles
  }
}

std::string Program::text() const {
  static const char* const kKinds[] = {"once", "twice", "subset", "double", "inside scope"};
  std::ostringstream out;
  out << (hostile ? "hostile " : "") << "seed " << seed << ", " << num_inputs << " inputs\n";
  print(out, statements, 1);
  out << "outputs";
  for (const size_t output : outputs) {
    out << " v" << output;
  }
  out << ", backward " << kKinds[static_cast<int>(backward)] << "\n";
  return out.str();
}

}  // namespace encore::test
