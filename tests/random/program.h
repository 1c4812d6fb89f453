// Random training functions: what they are made of, how they are made, run, printed and shrunk.
#pragma once

#include <memory>
#include <random>

#include "support/oracle.h"

namespace encore::test {

/// Every variable of a gentle program is a float matrix of this shape, lying in memory in any way. Those of a hostile
/// one may also have from one element to megabytes, and other types.
constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 6;

/// What a program changes besides its variables: running statistics of norm layers.
struct Buffers {
  at::Tensor mean;
  at::Tensor variance;
};

struct Machine {
  Buffers* buffers;
  uint64_t choice;  // the statement's own random number: which axis, which index, ...

  int64_t pick(int64_t count) {
    const auto value = static_cast<int64_t>(choice % static_cast<uint64_t>(count));
    choice /= static_cast<uint64_t>(count);
    return value;
  }
};

/// An op of the generator's vocabulary: from matrices to a matrix. What it is given in another shape or type becomes
/// one first, unless it takes any.
struct OpKind {
  const char* name;
  int arity;
  at::Tensor (*run)(Machine& machine, const Tensors& x);
  bool inplace = false;  // writes to x[0]; the generator gives it a variable that may be written to
  bool any = false;      // takes and gives variables of any shape and type
};

/// All ops, in groups of one file each.
const std::vector<OpKind>& all_ops();
std::vector<OpKind> elementwise_ops();
std::vector<OpKind> shape_ops();
std::vector<OpKind> layer_ops();
std::vector<OpKind> inplace_ops();
std::vector<OpKind> random_ops();
std::vector<OpKind> hostile_ops();  // these and those after them only in hostile programs
std::vector<OpKind> sized_ops();

/// The variable as a float matrix: itself, if it is one.
at::Tensor as_matrix(const at::Tensor& x);

enum class BlockKind { kNone, kCheckpoint, kScope, kMark };

struct Statement {
  // An op: variables[result] = op(variables[operands]...).
  size_t op = 0;
  std::vector<size_t> operands;
  size_t result = 0;
  uint64_t choice = 0;
  // Or a block: statements under a checkpoint or scope; or a mark of operands[0] for recomputation.
  BlockKind block = BlockKind::kNone;
  Recompute recompute = Recompute::kReplay;
  DeterminismCheck check = DeterminismCheck::kMetadata;
  int policy = 0;
  bool early_stop = true;
  std::vector<Statement> body;
};

enum class BackwardKind { kOnce, kTwice, kSubset, kDouble, kInsideScope };

struct Program {
  uint64_t seed = 0;
  size_t num_inputs = 3;  // variables 0 .. num_inputs-1 are leaves
  size_t num_variables = 0;
  std::vector<Statement> statements;
  std::vector<size_t> outputs;
  BackwardKind backward = BackwardKind::kOnce;
  bool hostile = false;
  int budget_percent = 0;  // of what the plain run needs, for several steps; 0: no budget

  std::string text() const;
};

/// `hostile`: also of what careful code does not do.
Program make_program(uint64_t seed, bool hostile = false);

/// To be run within part of what it needs.
void give_budget(Program& program);

/// What happened within budgets.
struct BudgetTally {
  int64_t planned = 0;
  int64_t packed = 0;  // values, in planned steps
  int64_t ops_replayed = 0;
  int64_t refused = 0;
};
BudgetTally& budget_tally();

/// Empty if Encore gives what the plain run gives and leaves nothing behind; "skip" if the plain run itself throws.
std::string check_program(const Program& program);

/// A smaller program that still fails.
Program shrink(Program program);

/// Names of all ATen ops that run_program has recorded so far.
const std::vector<std::string>& recorded_op_names();

}  // namespace encore::test
