// Makes a failing program smaller while it still fails.
#include "random/program.h"

namespace encore::test {
namespace {

bool fails(const Program& program) {
  const std::string found = check_program(program);
  return !found.empty() && found != "skip" && found.rfind("unsteady", 0) != 0 && found.rfind("refused", 0) != 0;
}

void rename(std::vector<Statement>& statements, size_t from, size_t to) {
  for (Statement& statement : statements) {
    std::replace(statement.operands.begin(), statement.operands.end(), from, to);
    rename(statement.body, from, to);
  }
}

/// All programs that are one step smaller: without a statement, or without a block around its statements.
class Smaller {
 public:
  explicit Smaller(const Program& program) : program_(program) {}

  std::vector<Program> all() {
    for (size_t i = 0; i < program_.outputs.size() && program_.outputs.size() > 1; ++i) {
      Program next = program_;
      next.outputs.erase(next.outputs.begin() + static_cast<std::ptrdiff_t>(i));
      result_.push_back(std::move(next));
    }
    if (program_.backward != BackwardKind::kOnce) {
      result_.push_back(program_);
      result_.back().backward = BackwardKind::kOnce;
    }
    std::vector<size_t> path;
    visit(program_.statements, path);
    return std::move(result_);
  }

 private:
  void visit(const std::vector<Statement>& statements, std::vector<size_t>& path) {
    for (size_t i = 0; i < statements.size(); ++i) {
      path.push_back(i);
      remove(path, /*keep_body=*/false);
      if (!statements[i].body.empty()) {
        remove(path, /*keep_body=*/true);
        visit(statements[i].body, path);
      }
      path.pop_back();
    }
  }

  void remove(const std::vector<size_t>& path, bool keep_body) {
    Program next = program_;
    std::vector<Statement>* list = &next.statements;
    for (size_t i = 0; i + 1 < path.size(); ++i) {
      list = &(*list)[path[i]].body;
    }
    const auto at = list->begin() + static_cast<std::ptrdiff_t>(path.back());
    const Statement gone = *at;
    const auto after = list->erase(at);
    if (keep_body) {
      list->insert(after, gone.body.begin(), gone.body.end());
    } else {
      forget(next, gone);
    }
    result_.push_back(std::move(next));
  }

  static void forget(Program& program, const Statement& gone) {
    for (const Statement& inner : gone.body) {
      forget(program, inner);
    }
    if (gone.block == BlockKind::kNone) {
      rename(program.statements, gone.result, gone.operands[0]);
      std::replace(program.outputs.begin(), program.outputs.end(), gone.result, gone.operands[0]);
    }
  }

  const Program& program_;
  std::vector<Program> result_;
};

}  // namespace

Program shrink(Program program) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (Program& candidate : Smaller(program).all()) {
      if (fails(candidate)) {
        program = std::move(candidate);
        smaller = true;
        break;
      }
    }
  }
  return program;
}

}  // namespace encore::test
