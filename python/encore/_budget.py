"""Training inside a byte budget."""
from __future__ import annotations

import html
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch

from encore import _core
from encore._core import LargestBatch, Rehearsed, StepReport
from encore._errors import BudgetError, Error, InvalidArgument
from encore._modules import Follow, Names
from encore._with_blocks import WithBlock


class Step(WithBlock):
    """One training step of a budget; what MemoryBudget.step() gives."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._step: _core.OpenStep | None = None
        self._modules: Follow | None = None
        self._compiled = 0

    def _open(self) -> None:
        self._step = self._budget._core.step()
        self._compiled = _core.compiled_regions()
        self._modules = Follow(self._step, self._budget._names)
        self._modules.begin()

    def _close(self, failed: bool) -> None:
        if self._modules is not None:
            self._modules.end()
        if self._step is not None:
            self._budget._compiled = _core.compiled_regions() - self._compiled
            step, self._step = self._step, None
            step.end(failed)

    def _after(self, raised: BaseException | None) -> None:
        # An allocation that was refused inside an op arrives as PyTorch's own bindings have it.
        if isinstance(raised, RuntimeError) and not isinstance(raised, Error) and self._budget.report().refused:
            try:
                self._budget._core.raise_refusal()
            except BudgetError as refusal:
                raise refusal from raised

    def set_loss(self, loss: Union[float, torch.Tensor]) -> None:
        """Shown with the step in the run's report."""
        if self._step is not None:
            self._step.set_loss(float(loss))

    def __repr__(self) -> str:
        return f"<{'open ' if self._step is not None else ''}step of {self._budget!r}>"


class _Then:
    """What optimizers keep besides bytes of tensors, as it was."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._saved: List[Tuple[Any, Dict[Any, Any], List[Dict[str, Any]]]] = [
            (o, {key: _copied(state) for key, state in o.state.items()}, [dict(group) for group in o.param_groups])
            for o in optimizers
        ]

    def leaves(self) -> List[torch.Tensor]:
        found = [leaf for _, _, groups in self._saved for group in groups for leaf in group["params"]]
        return list({id(leaf): leaf for leaf in found}.values())

    def put_back(self) -> None:
        for optimizer, states, groups in self._saved:
            optimizer.state.clear()
            optimizer.state.update({key: _copied(state) for key, state in states.items()})
            for group, before in zip(optimizer.param_groups, groups):
                group.clear()
                group.update(before)


def _copied(state: Any) -> Any:
    return dict(state) if isinstance(state, dict) else state


def _limit(limit: Any) -> Union[str, int]:
    if isinstance(limit, bool) or not isinstance(limit, (str, int)):
        raise InvalidArgument(f"budget: a limit is a text such as '2GiB' or a number of bytes, not {limit!r}")
    return limit


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
        self._own(_core.Budget(_limit(limit)))

    def _own(self, core: _core.Budget) -> None:
        self._core, self._names, self._compiled = core, Names(), 0

    @classmethod
    def _of(cls, core: _core.Budget) -> MemoryBudget:
        budget = cls.__new__(cls)
        budget._own(core)
        return budget

    @classmethod
    def fraction(cls, part: float) -> MemoryBudget:
        """A part, above 0 and at most 1, of what the plain step needs above what rests: the first step shows that."""
        return cls._of(_core.Budget.fraction(part))

    @classmethod
    def slowdown(cls, factor: float) -> MemoryBudget:
        """The least bytes in which a step takes at most `factor` (1 or more) times as long as plainly; learnt likewise."""
        return cls._of(_core.Budget.slowdown(factor))

    @classmethod
    def least(cls) -> MemoryBudget:
        """The least bytes for which a plan is known, however slow; learnt likewise."""
        return cls._of(_core.Budget.least())

    def step(self) -> Step:
        """The scope of one training step, for a with statement."""
        return Step(self)

    def rehearse(self, step: Callable[[], Any], optimizers: Sequence[torch.optim.Optimizer] = ()) -> Rehearsed:
        """Runs the training step once, within the limit, tells what it needs, and puts everything back bit for bit.

        `step` is what stands inside `with budget.step():`; `optimizers` are all that it steps or whose gradients it lets
        go of. Python variables that it assigns to stay assigned. The next step of this kind follows a plan.
        """
        then = _Then(optimizers)
        return self._core.rehearse(step, then.leaves(), then.put_back)

    def largest_batch(
        self, step: Callable[[int], Any], low: int, high: int, optimizers: Sequence[torch.optim.Optimizer] = ()
    ) -> LargestBatch:
        """The largest batch from `low` to `high` whose steps fit; `step` runs one for the size that it gets."""
        then = _Then(optimizers)
        return self._core.largest_batch(step, low, high, then.leaves(), then.put_back)

    def set_limit(self, limit: Union[str, int]) -> None:
        """From the next step on."""
        self._core.set_limit(_limit(limit))

    @property
    def limit_bytes(self) -> int:
        """-1 while a fraction is not known in bytes yet."""
        return self._core.limit_bytes()

    def leave_alone_below(self, bytes: int) -> None:
        """Values of fewer bytes stay where they are, from the next step on. 512 unless told otherwise."""
        self._core.leave_alone_below(bytes)

    def wait_for_plans(self, wait: bool = True) -> None:
        """Each step waits for its plan, from the next one on, so that two runs are alike.

        Otherwise a step follows a sketch, and a better plan that was made meanwhile as soon as it is there.
        """
        self._core.wait_for_plans(wait)

    def name_modules_of(self, model: torch.nn.Module) -> None:
        """Reports name values by the modules of this model, from the next step on.

        Without this they are named by the modules of whichever model is called in the step.
        """
        self._names.tell(model)

    def report(self) -> StepReport:
        """Of the last step, also if it was refused before it began."""
        report = self._core.report()
        setattr(report, "compiled_regions", self._compiled)
        return report

    def graph_json(self) -> str:
        """The last planned step as the planner saw it, for the commands `encore plan` and `encore curve`."""
        return self._core.graph_json()

    def save_report(self, path: Union[str, "os.PathLike[str]"], name: str = "run") -> None:
        """All steps so far, the last planned one in detail: one web page, or for '*.json' the data of it."""
        path = os.fspath(path)
        text = self._core.run_json(name) if path.endswith(".json") else self._core.run_html(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def __repr__(self) -> str:
        limit = self.limit_bytes
        return f"MemoryBudget({_core.format_bytes(limit) if limit >= 0 else 'learnt from its first step'})"

    def _repr_html_(self) -> str:
        page = html.escape(self._core.run_html("run"), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 48em; border: 0"></iframe>'


def _as_html(report: Any) -> str:
    return f"<pre>{html.escape(str(report))}</pre>"


def _as_text(report: Any) -> str:
    compiled = report.compiled_regions
    said = f"{compiled} compiled regions ran in it: what they save was kept\n" if compiled > 0 else ""
    return str(_text_of_step(report)) + said


# Reports show themselves in notebooks.
_text_of_step: Any = _core.StepReport.__str__
setattr(_core.StepReport, "compiled_regions", 0)
for _name, _shown in (("__str__", _as_text), ("__repr__", _as_text), ("_repr_html_", _as_html)):
    setattr(_core.StepReport, _name, _shown)
setattr(_core.ProfilerReport, "_repr_html_", _as_html)
