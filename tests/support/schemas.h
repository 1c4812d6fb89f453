// Operators of a user's library, with every kind of alias that a schema can say.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace encore::test {

/// `accumulate(x, *, acc!)`: adds x to acc, and gives acc. `scale(x, state!)`: x times the state, which then changes.
/// `swap_add(a!, b!)`: both change by each other. `bump(state!)`: writes, and gives nothing. `first_row(x, *, out!)`:
/// only the first row is set. `maybe_view(x)`: the first row of x.
c10::OperatorHandle schema(const char* name);

template <class Signature>
auto find_schema(const char* name) {
  return schema(name).typed<Signature>();
}

}  // namespace encore::test
