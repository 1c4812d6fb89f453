// Small blocks that a thread has freed, for its next allocations.
#pragma once

#include <cstddef>

namespace encore::run::small_blocks {

// LibTorch takes aligned memory from malloc, which cuts each block out of a larger one and joins it again: for a tensor
// of a few numbers that costs more than counting it does. What is freed here waits for the next of its size instead.

/// Blocks of up to so many bytes are small.
constexpr std::size_t kLargestBytes = 1024;

/// Aligned as tensors are. `nbytes` is at most kLargestBytes.
char* take(std::size_t nbytes);
/// `nbytes` as it was taken, on any thread.
void put(char* start, std::size_t nbytes) noexcept;
/// Gives back what this thread holds.
void give_back() noexcept;

}  // namespace encore::run::small_blocks
