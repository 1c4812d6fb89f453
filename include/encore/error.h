// The one family of exceptions that Encore throws.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

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

/// A training step does not fit into its memory budget. When the step has ended everything is as it was before it:
/// generators, buffers, gradients; unless `parameters_written` says otherwise.
class ENCORE_API BudgetError : public Error {
 public:
  struct Figures {
    int64_t needed_bytes = -1;  ///< live bytes that would have been reached, -1 if that is not known
    int64_t limit_bytes = -1;
    /// The budget to state next. For a step that is known: the least for which a plan is known. For one that was
    /// refused while it ran for the first time: what it takes without a limit up to there, and later as far as that can
    /// be foreseen, which may not be all. Never more than plain training needs.
    int64_t least_bytes = -1;
    bool least_is_known = false;      ///< a plan for it is known
    std::string op;                   ///< the op, or node of backward, whose allocation was refused
    int64_t other_threads_bytes = 0;  ///< of what is live: allocated by other threads, such as a data loader's batches
    int64_t parameters_written = 0;   ///< by an optimizer, before an allocation inside it was refused
  };
  explicit BudgetError(const std::string& what) : Error(what) {}
  BudgetError(const std::string& what, Figures figures) : Error(what), figures_(std::move(figures)) {}
  ~BudgetError() override;
  const Figures& figures() const { return figures_; }

 private:
  Figures figures_;
};

/// A process-wide slot that Encore needs (autograd engine, CPU allocator) belongs to somebody else.
class ENCORE_API SlotError : public Error {
 public:
  using Error::Error;
  ~SlotError() override;
};

}  // namespace encore
