"""Bytes that leave PyTorch: what is written to a NumPy array shows in no op, and in no version counter."""
from __future__ import annotations

import functools
from typing import Any

import torch

from encore import _core

_WAYS = ("numpy", "data_ptr", "storage", "untyped_storage", "__dlpack__")


def _telling(method: Any) -> Any:
    @functools.wraps(method)
    def call(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if type(self) is torch.Tensor or isinstance(self, torch.nn.Parameter):
            _core.hand_out(self)
        return method(self, *args, **kwargs)

    return call


def install() -> None:
    for way in _WAYS:
        if hasattr(torch.Tensor, way):
            setattr(torch.Tensor, way, _telling(getattr(torch.Tensor, way)))
