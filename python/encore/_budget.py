"""Training inside a byte budget."""
from __future__ import annotations

import html
import os
from types import TracebackType
from typing import Any, Dict, Optional, Type, Union

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from encore import _core
from encore._core import StepReport
from encore._errors import BudgetError, Error


class Step:
    """One training step of a budget; what MemoryBudget.step() gives."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._open: _core.OpenStep | None = None
        self._hooks: list[Any] = []

    def __enter__(self) -> Step:
        self._open = self._budget._core.step()
        if self._budget._modules:
            self._hooks = [
                register_module_forward_pre_hook(self._enter_module),
                register_module_forward_hook(self._leave_module),
            ]
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        opened, self._open = self._open, None
        if opened is None:
            return
        opened.end(kind is not None)
        # An allocation that was refused inside an op arrives as PyTorch's own bindings have it.
        if isinstance(raised, RuntimeError) and not isinstance(raised, Error) and self._budget.report().refused:
            try:
                self._budget._core.raise_refusal()
            except BudgetError as refusal:
                raise refusal from raised

    def set_loss(self, loss: Union[float, torch.Tensor]) -> None:
        """Shown with the step in the run's report."""
        if self._open is not None:
            self._open.set_loss(float(loss))

    def _enter_module(self, module: torch.nn.Module, _: Any) -> None:
        name = self._budget._modules.get(id(module))
        if name is not None and self._open is not None:
            self._open.enter_module(name)

    def _leave_module(self, module: torch.nn.Module, _: Any, __: Any) -> None:
        if id(module) in self._budget._modules and self._open is not None:
            self._open.leave_module()


class MemoryBudget:
    """A limit on all CPU tensor bytes of this process, kept while training.

        budget = encore.MemoryBudget("2GiB")     # parameters, gradients, optimizer, activations
        for x, y in loader:
            with budget.step():
                optimizer.zero_grad()
                loss_of(model(x), y).backward()  # the same gradients, bit for bit
                optimizer.step()
        print(budget.report())

    Nothing else in the model or loop changes. The first step of a kind is recorded and kept within the limit by giving
    up values by price; later ones follow a plan. A step that can't be kept within the limit raises BudgetError, which
    has the figures; nothing has happened then. Steps of all budgets of a process run one after another.
    """

    def __init__(self, limit: Union[str, int]) -> None:
        self._core = _core.Budget(limit)
        self._modules: Dict[int, str] = {}
        self._model: torch.nn.Module | None = None

    @classmethod
    def fraction(cls, part: float) -> MemoryBudget:
        """A part, above 0 and at most 1, of what the plain step needs above what rests: the first step shows that."""
        budget = cls.__new__(cls)
        budget._core = _core.Budget.fraction(part)
        budget._modules = {}
        budget._model = None
        return budget

    def step(self) -> Step:
        """The scope of one training step, for a with statement."""
        return Step(self)

    def set_limit(self, limit: Union[str, int]) -> None:
        """From the next step on."""
        self._core.set_limit(limit)

    @property
    def limit_bytes(self) -> int:
        """-1 while a fraction is not known in bytes yet."""
        return self._core.limit_bytes()

    def leave_alone_below(self, bytes: int) -> None:
        """Values of fewer bytes stay where they are, from the next step on. 512 unless told otherwise."""
        self._core.leave_alone_below(bytes)

    def name_modules_of(self, model: torch.nn.Module) -> None:
        """Reports name values by the modules in whose forward they were made, from the next step on."""
        self._model = model  # holds the modules, so that no other object has their identity
        self._modules = {id(module): name for name, module in model.named_modules() if name}

    def report(self) -> StepReport:
        """Of the last step, also if it was refused before it began."""
        return self._core.report()

    def save_report(self, path: Union[str, "os.PathLike[str]"], name: str = "run") -> None:
        """All steps so far, the last planned one in detail: one web page, or for '*.json' the data of it."""
        path = os.fspath(path)
        text = self._core.run_json(name) if path.endswith(".json") else self._core.run_html(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def _repr_html_(self) -> str:
        page = html.escape(self._core.run_html("run"), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 48em; border: 0"></iframe>'


def _step_report_html(report: StepReport) -> str:
    return f"<pre>{html.escape(str(report))}</pre>"


def _in_notebooks() -> None:
    for kind in (_core.StepReport, _core.ProfilerReport):
        setattr(kind, "_repr_html_", _step_report_html)


_in_notebooks()
