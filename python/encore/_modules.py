"""Which module's forward is running, by PyTorch's global module hooks."""
from __future__ import annotations

import functools
import inspect
import threading
import weakref
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from encore import _core

# Where it is not there, an exception that leaves a module's forward passes by its hook.
_ALWAYS = {"always_call": True} if "always_call" in inspect.signature(register_module_forward_hook).parameters else {}


def _names_in(root: nn.Module) -> dict[int, str]:
    return {id(module): name or type(root).__name__ for name, module in root.named_modules()}


class Names:
    """Of a budget: the modules of the models that were told, or else of those that are called in a step."""

    def __init__(self) -> None:
        self._told: nn.Module | None = None  # held, so that no other object has the identity of one of its modules
        self._told_names: dict[int, str] = {}
        self._called: weakref.WeakKeyDictionary[nn.Module, dict[int, str]] = weakref.WeakKeyDictionary()

    def tell(self, model: nn.Module) -> None:
        self._told, self._told_names = model, {id(module): name for name, module in model.named_modules() if name}

    def of(self, root: nn.Module) -> dict[int, str]:
        """The names below the module that was called first; its own is its class's."""
        if self._told is not None:
            return self._told_names
        if root not in self._called:
            self._called[root] = _names_in(root)
        return self._called[root]


class Follow:
    """While it is on, ops of this thread belong to the innermost module whose forward is running."""

    def __init__(self, step: _core.OpenStep, names: Names) -> None:
        self._step, self._names, self._thread = step, names, threading.get_ident()
        self._stack: list[tuple[int, bool]] = []  # modules, and whether each has a name
        self._here: dict[int, str] = {}
        self._hooks: list[Any] = []

    def begin(self) -> None:
        # By map, so that no interrupt comes between a hook that is registered and its handle in the list.
        self._hooks.extend(map(register_module_forward_pre_hook, [self._enter]))
        self._hooks.extend(map(functools.partial(register_module_forward_hook, **_ALWAYS), [self._leave]))

    def end(self) -> None:
        """Goes on where it was interrupted."""
        while self._hooks:
            self._hooks[-1].remove()
            self._hooks.pop()

    def _enter(self, module: nn.Module, _: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        if self._stack and self._stack[0][0] == id(module):
            self._pop_to(0)  # an exception has left it
        if not self._stack:
            self._here = self._names.of(module)
        name = self._here.get(id(module))
        if name is not None:
            self._step.enter_module(name)
        self._stack.append((id(module), name is not None))

    def _leave(self, module: nn.Module, _: Any, __: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        for depth in range(len(self._stack) - 1, -1, -1):
            if self._stack[depth][0] == id(module):
                self._pop_to(depth)
                return

    def _pop_to(self, depth: int) -> None:
        while len(self._stack) > depth:
            if self._stack.pop()[1]:
                self._step.leave_module()
