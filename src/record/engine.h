// The autograd engine slot: where LibTorch asks how to save a tensor, and where backward begins and ends.
#pragma once

#include <functional>

namespace encore::record {

/// Takes the process's engine slot on first use. Throws SlotError if another engine, such as Python's, holds it.
void ensure_engine();

/// Calls `release` when the backward that runs on this thread ends. Without one, nothing is called.
void release_after_backward(std::function<void()> release);

/// Called at the start of each backward, before anything of it runs. One for the process; null for none.
void set_backward_listener(void (*listener)());

}  // namespace encore::record
