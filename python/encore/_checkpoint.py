"""Checkpointed functions, with the call of torch.utils.checkpoint."""
from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, Union, overload

import torch

from encore import _core
from encore._core import CheckpointOptions, DeterminismCheck, Recompute
from encore._errors import InvalidArgument

F = TypeVar("F", bound=Callable[..., Any])
_CHECKS = {"default": DeterminismCheck.METADATA, "none": DeterminismCheck.NONE, "values": DeterminismCheck.VALUES}
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


class _Seen:
    """Finds the tensors in arguments: in tuples, lists and dicts; other objects may hold some."""

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self.others = False

    def look(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
        elif isinstance(value, (tuple, list)):
            for item in value:
                self.look(item)
        elif isinstance(value, dict):
            for item in value.values():
                self.look(item)
        elif not isinstance(value, _PLAIN):
            self.others = True


class _Place:
    """Stands for a tensor in arguments that are kept: the tensor itself is held by whoever made it."""

    def __init__(self, index: int) -> None:
        self.index = index


def _map(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, (torch.Tensor, _Place)):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple
        return type(value)(*(_map(item, change) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_map(item, change) for item in value)
    if isinstance(value, dict):
        return {key: _map(item, change) for key, item in value.items()}
    return value


def _rerunner(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[list[torch.Tensor]], None]:
    count = 0

    def leave(_: Any) -> _Place:
        nonlocal count
        count += 1
        return _Place(count - 1)

    kept_args, kept_kwargs = _map(args, leave), _map(kwargs, leave)

    def again(tensors: list[torch.Tensor]) -> None:
        def fill(place: Any) -> Any:
            return tensors[place.index]

        function(*_map(kept_args, fill), **_map(kept_kwargs, fill))

    return again


def _who(options: CheckpointOptions) -> str:
    return f"checkpoint '{options.name}'" if options.name else "checkpoint"


def _call(options: CheckpointOptions, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    seen = _Seen()
    seen.look(args)
    seen.look(kwargs)
    if not seen.tensors and not seen.others:
        raise InvalidArgument(
            f"{_who(options)}: no argument holds a tensor; what a function captures is not seen as its input, so pass "
            "at least one tensor"
        )
    if not _core.is_worth_recording(options):
        return function(*args, **kwargs)
    if options.recompute == Recompute.RERUN:
        call = _core.Call(options, seen.tensors, _rerunner(function, args, kwargs))
    else:
        call = _core.Call(options)
    del seen  # inputs are the caller's to hold
    return call.run(function, args, kwargs)


def _options(
    options: CheckpointOptions | None, preserve_rng_state: bool | None, context_fn: Any, determinism_check: str | None
) -> CheckpointOptions:
    if context_fn is not None and getattr(context_fn, "__name__", "") != "noop_context_fn":
        raise InvalidArgument(
            "checkpoint: context_fn has nothing to do here, since the function is not called again; state a policy: "
            "checkpoint(f, x, options=CheckpointOptions(policy=keep_matmuls()))"
        )
    chosen = CheckpointOptions() if options is None else copy.copy(options)
    if preserve_rng_state is not None:
        chosen.preserve_rng_state = preserve_rng_state
    if determinism_check is not None:
        if determinism_check not in _CHECKS:
            raise InvalidArgument(f"checkpoint: determinism_check is {determinism_check!r}, not one of {[*_CHECKS]}")
        chosen.determinism_check = _CHECKS[determinism_check]
    return chosen


@overload
def checkpoint(function: torch.Tensor) -> torch.Tensor: ...
@overload
def checkpoint(
    function: None = None, *, options: CheckpointOptions | None = None, **settings: Any
) -> Callable[[F], F]: ...
@overload
def checkpoint(function: F, *, options: CheckpointOptions | None = None, **settings: Any) -> F: ...
@overload
def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...
def checkpoint(
    function: Union[torch.Tensor, Callable[..., Any], None] = None,
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool | None = None,
    context_fn: Any = None,
    determinism_check: str | None = None,
    debug: bool = False,
    early_stop: bool = True,
    respect_saved_tensors_hooks: bool | None = None,
    options: CheckpointOptions | None = None,
    **kwargs: Any,
) -> Any:
    """Runs a function without keeping what its backward needs, and brings that back when backward asks.

        y = encore.checkpoint(block, x)          # as torch.utils.checkpoint.checkpoint is called

        @encore.checkpoint                       # each time it is called
        def block(x): ...

        @encore.checkpoint(options=encore.CheckpointOptions(name="block", policy=encore.keep_matmuls()))
        def block(x): ...

        with encore.Scope():
            encore.checkpoint(x)                 # one value, whatever the scope's policy says

    Gradients are those of the plain call, bit for bit, also of parameters and tensors that the function captures. The
    function is called once: its ops are recorded, and those that are needed are run again below autograd. With
    Recompute.RERUN it is called again. `use_reentrant`, `debug`, `early_stop` and `respect_saved_tensors_hooks`, as newer
    ones of PyTorch's take them, are accepted and make no difference.
    With gradients off the function just runs. Keyword arguments that are not named here are the function's own.
    """
    del use_reentrant, debug, early_stop, respect_saved_tensors_hooks
    if isinstance(function, torch.Tensor):
        return adaptive_checkpoint(function, -1)
    chosen = _options(options, preserve_rng_state, context_fn, determinism_check)
    if function is not None and (args or kwargs):
        return _call(chosen, function, args, kwargs)
    if function is None:
        return lambda decorated: _wrap(chosen, decorated)
    return _wrap(chosen, function)


def _wrap(options: CheckpointOptions, function: Callable[..., Any]) -> Callable[..., Any]:
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        return _call(options, function, args, kwargs)

    # A module has no name of its own, and its attributes are not the function's.
    if isinstance(function, torch.nn.Module):
        return checkpointed
    return functools.update_wrapper(checkpointed, function)


def adaptive_checkpoint(tensor: torch.Tensor, threshold_bytes: int) -> torch.Tensor:
    """Marks one value for recomputation if its storage has strictly more than so many bytes; returns the tensor."""
    _core.mark(tensor, threshold_bytes)
    return tensor


def checkpoint_sequential(
    functions: Union[torch.nn.Sequential, Sequence[Callable[..., Any]]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    *,
    preserve_rng_state: bool | None = None,
    options: CheckpointOptions | None = None,
) -> Any:
    """A chain of modules or functions in checkpointed segments of equal length; the last one just runs.

    Its values are needed as soon as backward begins: to recompute them would cost time and save nothing.
    """
    del use_reentrant
    chosen = _options(options, preserve_rng_state, None, None)
    chain: Any = functions.children() if isinstance(functions, torch.nn.Sequential) else functions
    layers: list[Callable[..., Any]] = list(chain)
    sizes = _core.balanced_segments(len(layers), segments)
    name = chosen.name

    def run(part: Sequence[Callable[..., Any]], value: Any) -> Any:
        for layer in part:
            value = layer(value)
        return value

    begin = 0
    for index, size in enumerate(sizes):
        part = layers[begin : begin + size]
        begin += size
        if begin == len(layers):
            return run(part, input)
        chosen.name = f"{name or 'segment'} {index}"
        input = _call(chosen, run, (part, input), {})
    return input
