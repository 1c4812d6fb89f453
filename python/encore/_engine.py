"""Python's autograd engine, announcing each backward before it begins."""
from __future__ import annotations

from typing import Any

import torch

from encore import _core

_before = torch.autograd.Variable._execution_engine


class _Announcing(type(_before)):  # type: ignore[misc]
    """The engine object that torch.autograd.backward and grad call; everything else of it is as it was."""

    def run_backward(
        self, tensors: Any, grad_tensors: Any, keep_graph: bool, create_graph: bool, *args: Any, **kwargs: Any
    ) -> Any:
        if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):  # edges of a graph, which newer ones take
            return super().run_backward(tensors, grad_tensors, keep_graph, create_graph, *args, **kwargs)
        arguments = (tensors, grad_tensors, keep_graph, create_graph, *args)
        accumulates = bool(kwargs.get("accumulate_grad", False))
        return _core.announced(super().run_backward, arguments, kwargs, tensors, create_graph, accumulates)


def install() -> None:
    torch.autograd.Variable._execution_engine = _Announcing()
