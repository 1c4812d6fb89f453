"""The one family of exceptions that Encore raises."""


class Error(RuntimeError):
    """Base of all errors. A message says who, what, with the numbers, and what to do about it."""


class InvalidArgument(Error, ValueError):
    """An argument or option that can't be right; nothing was done."""


class ScopeError(Error):
    """A scope used where there is none, or ended out of order."""


class ReplayError(Error):
    """A value that backward needs could not be brought back. What the user's own function raised is the cause."""


class ChangedError(ReplayError):
    """A tensor from outside was changed in place between forward and backward."""


class DeterminismError(ReplayError):
    """A recomputed value is not the one that was recorded."""


class BudgetError(Error):
    """A training step does not fit into its memory budget.

    When the step has ended everything is as it was before it (generators, buffers, gradients), unless
    `parameters_written` says otherwise.
    """

    needed_bytes: int = -1
    """Live bytes that would have been reached; -1 if that is not known."""
    limit_bytes: int = -1
    least_bytes: int = -1
    """The budget to state next."""
    least_is_known: bool = False
    """A plan for `least_bytes` is known."""
    op: str = ""
    """The op that needs most."""
    other_threads_bytes: int = 0
    """Of what is live: allocated by other threads, such as a data loader's batches."""
    parameters_written: int = 0
    """By an optimizer, before an allocation inside it was refused."""


class SlotError(Error):
    """A process-wide slot that Encore needs (autograd engine, CPU allocator) belongs to somebody else."""
