// Which module each recorded op belongs to. C++ has no module hooks: it is found by whose parameters ops read, by what
// their values are read by, and by how modules of one class are alike.
#pragma once

#include <string>
#include <vector>

#include "budget/module_tree.h"
#include "tape/tape.h"

namespace encore::budget {

/// By op, the path of the innermost module known to run it; empty if no module was added. The tape's lock is held.
///
/// An op that reads a parameter or buffer is that module's. Those between two such ops, of modules P and N, belong
/// - to a module around P, as long as more than one value that it made is still to be read (it hands one on), or as far
///   as all modules of its form go on alike where not all of them do;
/// - to a module around P or N, as far as they are what its children without parameters do, in the order of these;
/// - else to the innermost module around both.
/// Within the module found so, a child without parameters that does such an op has it (dropout, activation, pooling).
/// What an optimizer computes before it writes to a parameter is that parameter's module's.
std::vector<std::string> module_paths(const ModuleTree& tree, const tape::Tape& tape);

}  // namespace encore::budget
