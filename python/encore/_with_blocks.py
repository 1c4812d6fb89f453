"""What a with statement opens and closes."""
from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Optional, Type, TypeVar

from encore import _core

_Block = TypeVar("_Block", bound="WithBlock")


class WithBlock:
    """An interrupt (Ctrl-C) leaves it open or closed, never in between; `_core` says how.

    `_open()` may be interrupted anywhere, `_close()` too and is then called again.
    """

    if TYPE_CHECKING:

        def __enter__(self: _Block) -> _Block: ...
        def __exit__(
            self, kind: Optional[Type[BaseException]], raised: BaseException | None, trace: TracebackType | None
        ) -> None: ...

    else:
        __enter__ = _core.enter
        __exit__ = _core.leave

    def _open(self) -> None:
        raise NotImplementedError

    def _close(self, failed: bool) -> None:
        """Nothing if it is closed."""
        raise NotImplementedError

    def _after(self, raised: BaseException | None) -> None:
        """Once it is closed."""
