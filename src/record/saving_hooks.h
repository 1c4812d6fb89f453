// What autograd is given when it asks how to save a tensor.
#pragma once

#include <memory>

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <encore/error.h>
#include <encore/export.h>

namespace encore::record {

/// Hooks for a tensor that autograd is about to save on this thread, by its recorder. Null where there is none, where
/// hooks of the user's own were set inside the innermost region, and where hooks are forbidden.
std::unique_ptr<torch::autograd::SavedVariableHooks> saving_hooks();

/// How many compiled regions (torch.compile's) have run on threads with a recorder. Nothing in them is recorded, and
/// what autograd saves of them is held as without a recorder.
ENCORE_API int64_t compiled_regions();

/// Throws, for an error of ours that leaves a hook, what this process's users can catch by its type.
using Rethrow = void (*)(const Error& error);
void set_rethrow(Rethrow rethrow);

}  // namespace encore::record
