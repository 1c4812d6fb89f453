"""Gradient checkpointing, and training inside a byte budget that you state, with the plain run's gradients bit for bit.

    import encore

    budget = encore.MemoryBudget("2GiB")
    for x, y in loader:
        with budget.step():
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()

checkpoint, checkpoint_sequential    as torch.utils.checkpoint has them; checkpoint is a decorator, too
Scope and policies                   what of the inside of a with block is kept and what is recomputed
MemoryBudget                         state the bytes, and nothing else in the model changes
CheckpointProfiler                   what checkpoints have saved, measured
live_tensor_bytes, MemoryScope       bytes of tensors, exact
BlockReuse                           freed blocks are given out again, which makes training faster
Error                                base of all exceptions; BudgetError has the figures as attributes

CPU tensors only: others are kept, as without Encore.
"""
import os as _os

import torch as _torch

try:
    from encore import _core
except ImportError as _error:
    raise ImportError(
        f"encore: its C++ side can't be loaded into a Python with torch {_torch.__version__} ({_error}); it works with "
        "the torch that it was built for only, so build it against this one"
    ) from _error


def _release(version: str) -> str:
    return ".".join(version.split(".")[:2])  # within one of these, LibTorch's classes have the same layout


if _release(_torch.__version__) != _release(_core.torch_version):
    raise ImportError(
        f"encore: built for torch {_core.torch_version}, and this is torch {_torch.__version__}; build it against this "
        "one: cmake -DTorch_DIR=... -DENCORE_BUILD_PYTHON=ON"
    )

from encore._budget import MemoryBudget, Step
from encore._checkpoint import adaptive_checkpoint, checkpoint, checkpoint_sequential
from encore._core import (
    Action,
    CheckpointOptions,
    CheckpointRow,
    CheckpointWarning,
    DeterminismCheck,
    LargestBatch,
    Policy,
    ProfilerReport,
    Recompute,
    Rehearsed,
    ScopeStats,
    StepForecast,
    StepMode,
    StepReport,
    ValueInfo,
    ValueReport,
    drop_all,
    format_bytes,
    keep_all,
    keep_matmuls,
    keep_ops,
    larger_than,
    live_tensor_bytes,
    named,
    pack_masks,
    parse_bytes,
    peak_tensor_bytes,
    reset_peak_tensor_bytes,
)
from encore._engine import install as _install_engine
from encore._errors import (
    BudgetError,
    ChangedError,
    DeterminismError,
    Error,
    InvalidArgument,
    ReplayError,
    ScopeError,
    SlotError,
)
from encore._handed_out import install as _install_handed_out
from encore._scopes import BlockReuse, CheckpointProfiler, MemoryScope, Scope

__version__: str = _core.version
__all__ = [
    "Action",
    "BlockReuse",
    "BudgetError",
    "ChangedError",
    "CheckpointOptions",
    "CheckpointProfiler",
    "CheckpointRow",
    "CheckpointWarning",
    "DeterminismCheck",
    "DeterminismError",
    "Error",
    "InvalidArgument",
    "LargestBatch",
    "MemoryBudget",
    "MemoryScope",
    "Policy",
    "ProfilerReport",
    "Recompute",
    "Rehearsed",
    "ReplayError",
    "Scope",
    "ScopeError",
    "ScopeStats",
    "SlotError",
    "Step",
    "StepForecast",
    "StepMode",
    "StepReport",
    "ValueInfo",
    "ValueReport",
    "adaptive_checkpoint",
    "checkpoint",
    "checkpoint_sequential",
    "drop_all",
    "format_bytes",
    "keep_all",
    "keep_matmuls",
    "keep_ops",
    "larger_than",
    "live_tensor_bytes",
    "named",
    "pack_masks",
    "parse_bytes",
    "peak_tensor_bytes",
    "reset_peak_tensor_bytes",
]

# Where users find them, in help and in tracebacks.
for _name in __all__:
    globals()[_name].__module__ = "encore"

_install_engine()
_install_handed_out()
_os.register_at_fork(after_in_child=_core.forget_in_child)
