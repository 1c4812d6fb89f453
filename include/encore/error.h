// The one family of exceptions that Encore throws.
#pragma once

#include <stdexcept>
#include <string>

#include <encore/export.h>

namespace encore {

/// Base of all errors. A message says who, what, with the numbers, and what to do about it.
class ENCORE_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~Error() override;
};

/// An argument or option that can't be right; nothing was done.
class ENCORE_API InvalidArgument : public Error {
 public:
  using Error::Error;
  ~InvalidArgument() override;
};

/// A scope used where there is none, or ended out of order.
class ENCORE_API ScopeError : public Error {
 public:
  using Error::Error;
  ~ScopeError() override;
};

/// A value that backward needs could not be brought back: an op threw, or memory ran out.
class ENCORE_API ReplayError : public Error {
 public:
  using Error::Error;
  ~ReplayError() override;
};

/// A tensor from outside was changed in place between forward and backward.
class ENCORE_API ChangedError : public ReplayError {
 public:
  using ReplayError::ReplayError;
  ~ChangedError() override;
};

/// A recomputed value is not the one that was recorded.
class ENCORE_API DeterminismError : public ReplayError {
 public:
  using ReplayError::ReplayError;
  ~DeterminismError() override;
};

/// A process-wide slot that Encore needs (autograd engine, CPU allocator) belongs to somebody else.
class ENCORE_API SlotError : public Error {
 public:
  using Error::Error;
  ~SlotError() override;
};

}  // namespace encore
