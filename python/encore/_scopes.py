"""Scopes: of recording, of counting bytes, of reusing blocks, and of watching checkpoints."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Optional, Tuple, Union

from encore import _core
from encore._core import Action, Policy, ProfilerReport, ScopeStats, ValueInfo
from encore._errors import InvalidArgument, ScopeError
from encore._with_blocks import WithBlock

Rule = Callable[[ValueInfo], Optional[Action]]


class Scope(WithBlock):
    """While it is open the ops of this thread are recorded, and what autograd saves is kept or recomputed by a policy.

        with encore.Scope(encore.drop_all()) as scope:
            loss = model(x).sum()
        loss.backward()
        print(scope.stats().ops_replayed)

    A policy may be a function of the value: `encore.Scope(lambda value: encore.Action.KEEP if value.bytes < 9000 else
    encore.Action.RECOMPUTE)`. Scopes nest. Backward may run inside, after it, or on another thread. `segments` are pairs of first and last op, as
    dump() numbers them, whose values are recomputed, in place of a policy.
    """

    def __init__(
        self, policy: Union[Policy, Rule, None] = None, name: str = "", *, segments: Sequence[Tuple[int, int]] | None = None
    ) -> None:
        if not (policy is None or isinstance(policy, Policy) or callable(policy)):
            raise InvalidArgument(f"scope: {policy!r} is no policy; take drop_all() or another, or a function of a value")
        self._policy = _core.keep_all() if policy is None else policy
        self._name = name
        self._segments = None if segments is None else list(segments)
        self._scope: _core.OpenScope | None = None

    def _open(self) -> None:
        if self._scope is not None:
            raise ScopeError("scope: entered twice; make a new one")
        if self._segments is None:
            self._scope = _core.OpenScope(self._policy, self._name)
        else:
            self._scope = _core.OpenScope(self._segments, self._name)

    def _close(self, failed: bool) -> None:
        if self._scope is not None:
            self._scope.end(failed)

    def _its(self) -> _core.OpenScope:
        if self._scope is None:
            raise ScopeError("scope: not entered yet; use it in a with statement")
        return self._scope

    def __repr__(self) -> str:
        return f"<Scope {self._name!r}, {'not entered' if self._scope is None else self._scope.stats()}>"

    def stats(self) -> ScopeStats:
        """What the scope has done so far, checkpoints inside it included."""
        return self._its().stats()

    def dump(self) -> str:
        """The tape as text: one line an op."""
        return self._its().dump()


class MemoryScope(WithBlock):
    """Measures the peak of CPU tensor bytes of what runs in a with block, on all threads."""

    def __init__(self) -> None:
        self._count: _core.MemoryCount | None = None
        self._start_bytes = self._peak_bytes = 0

    def _open(self) -> None:
        self._count = _core.MemoryCount()
        self._start_bytes = self._count.start_bytes

    def _close(self, failed: bool) -> None:
        self._peak_bytes, self._count = self.peak_bytes, None

    @property
    def start_bytes(self) -> int:
        """Live bytes when the scope began."""
        return self._start_bytes

    @property
    def peak_bytes(self) -> int:
        """The most that was live at once since then, up to its end."""
        return self._peak_bytes if self._count is None else self._count.peak_bytes

    @property
    def peak_growth_bytes(self) -> int:
        """The peak above the start."""
        return self.peak_bytes - self.start_bytes


class BlockReuse(WithBlock):
    """While one is open, freed CPU blocks are given out again instead of going back to the system.

    That makes training faster: fresh pages cost more than many an op. The process grows no larger than it would have
    been at its peak. Scopes may nest and overlap; with the last one the blocks go back.
    """

    def __init__(self) -> None:
        self._reuse: _core.Reuse | None = None

    def _open(self) -> None:
        self._reuse = _core.Reuse()

    def _close(self, failed: bool) -> None:
        self._reuse = None

    @staticmethod
    def held_bytes() -> int:
        """Bytes of free blocks that are held now."""
        return _core.held_bytes()


class CheckpointProfiler(WithBlock):
    """Watches the checkpoints of the whole process, all threads, in a with block.

        with encore.CheckpointProfiler() as profiler:
            train_step()
        print(profiler.report())
    """

    def __init__(self) -> None:
        self._profiler: _core.Profiler | None = None
        self._last: ProfilerReport | None = None

    def _open(self) -> None:
        self._profiler = _core.Profiler()

    def _close(self, failed: bool) -> None:
        if self._profiler is not None:
            self._last, self._profiler = self.report(), None

    def report(self) -> ProfilerReport:
        """What it has seen so far, or up to its end."""
        if self._profiler is not None:
            return self._profiler.report()
        if self._last is None:
            raise ScopeError("profiler: not entered yet; use it in a with statement")
        return self._last
