// What differs between a C++ process and a Python one: who answers when autograd saves a tensor, and who knows that a
// backward begins and ends.
#pragma once

#include <memory>

#include <torch/csrc/autograd/function.h>

#include <encore/error.h>
#include <encore/export.h>

#include "record/backward.h"

namespace encore::host {

class Host {
 public:
  virtual ~Host() = default;
  /// Takes the process's engine slot, for the rest of the process: from here on record::saving_hooks() is asked for
  /// every tensor that autograd saves, and a record::BackwardRun lives from before the first node of every backward to
  /// its end, on the thread that runs it. Throws SlotError if the slot is somebody else's. Called once.
  virtual void take_engine() = 0;
};

/// A backward from `roots` is about to be made a graph task on this thread; it ends with what this gives.
ENCORE_API std::unique_ptr<record::BackwardRun> begin_backward(const torch::autograd::edge_list& roots,
                                                               bool create_graph, bool accumulate_grad);

/// LibTorch's own engine, with nothing but this library around it.
std::unique_ptr<Host> make_cpp_host();

/// What the Python host needs of the interpreter, so that this library need not be linked to one.
struct Interpreter {
  void* (*let_go)();                    // of the GIL; null if this thread does not have it
  void (*take_back)(void*);             // what let_go() gave
  void (*rethrow)(const Error& error);  // throws the Python exception for it, if there is one
};

/// A process whose engine is Python's. The module `encore` says so when it is imported; it must live as long as the
/// process. Throws SlotError if this process has taken the C++ host's engine already.
ENCORE_API void use_python(const Interpreter& interpreter);

/// The host of this process takes the engine slot, if that was not done yet. Throws SlotError where it can't.
ENCORE_API void ensure_engine();

/// The tensor's bytes become known to code whose writes nobody sees, as those into a NumPy array. While something is
/// open on this thread, a value of it is kept from here on, and each op that reads it looks whether it was written to.
ENCORE_API void hand_out(const at::Tensor& tensor);

/// After a fork, in the child: what was open on this thread is open in the parent only.
ENCORE_API void forget_in_child();

}  // namespace encore::host
