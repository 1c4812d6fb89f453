// Operators and an allocator that misbehave when told to.
#pragma once

#include <atomic>
#include <memory>

#include "support/torch_pch.h"

namespace encore::test::custom_ops {

/// No std::exception.
struct Stumble {};

/// Calls encore_test::<name>(tensor). The ops: `fails` throws when told to; `stumbles` throws a Stumble, once, when
/// told to, and else gives the cosine; `grows` gives one row more each time it runs; `flips` gives other bits each
/// time; `retypes` gives another type the second time; `counts` counts its runs and gives its input back, copied;
/// `draws` draws from the default generator although its schema does not say so; `asks` doubles, or triples where grad
/// mode is off.
at::Tensor call(const char* name, const at::Tensor& tensor);

/// encore_test::splits(tensor) -> Tensor[]: one piece more each time it runs.
std::vector<at::Tensor> call_splits(const at::Tensor& tensor);

/// encore_test::mapped(Dict(str, Tensor)) -> Tensor: the sum of the two tensors under "a" and "b".
at::Tensor call_mapped(const at::Tensor& a, const at::Tensor& b);

void fail_from_now_on();
/// All ops as at the start.
void reset();
/// How often an op of this library has run since the last reset.
int64_t runs();

/// While it lives, only the first `allowed` CPU allocations of more than `larger_than` bytes succeed.
class LittleMemory {
 public:
  LittleMemory(int allowed, size_t larger_than);
  ~LittleMemory();
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;
  bool has_failed() const;
};

}  // namespace encore::test::custom_ops
