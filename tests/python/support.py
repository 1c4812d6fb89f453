"""Scenarios run plainly and in every mode of Encore's, and compared bit for bit."""
import gc
import os
import unittest

import torch

import encore

os.environ.setdefault("ENCORE_WAIT_FOR_PLANS", "1")  # two runs are to be alike

def plain(function, *args, **kwargs):
    """Calls the function; takes the options of a checkpoint and does nothing with them."""
    for option in ("use_reentrant", "preserve_rng_state"):
        kwargs.pop(option, None)
    return function(*args, **kwargs)


RERUN = encore.CheckpointOptions(recompute=encore.Recompute.RERUN)


def rerun(function, *args, **kwargs):
    return encore.checkpoint(function, *args, options=RERUN, **kwargs)


def in_replay(scenario):
    yield scenario(encore.checkpoint)


def in_rerun(scenario):
    yield scenario(rerun)


def in_scope(scenario):
    with encore.Scope(encore.drop_all()):
        result = scenario(plain)
    yield result


def in_both(scenario):
    with encore.Scope(encore.keep_matmuls()):
        result = scenario(encore.checkpoint)
    yield result


def in_budget(scenario):
    """At the least budget that does; half of what the plain step needs, if that does."""
    budget = encore.MemoryBudget.fraction(0.5)
    budget.leave_alone_below(16)
    ran = 0
    for _ in range(20):
        try:
            with budget.step():
                result = scenario(plain)
        except encore.BudgetError as error:
            budget.set_limit(error.least_bytes)
            continue
        report = budget.report()
        assert report.limit_bytes < 0 or report.peak_bytes <= report.limit_bytes
        ran += 1
        yield result
        del result  # rests, otherwise, in the next step
        if ran == 3:
            return
    raise AssertionError("no budget does")


MODES = {"replay": in_replay, "rerun": in_rerun, "scope": in_scope, "both": in_both, "budget": in_budget}


def bits(tensor):
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8) if flat.numel() > 0 else flat


def same(a, b):
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(bits(a), bits(b))


def seeded(scenario):
    """The scenario's tensors, and where it leaves the generator."""

    def run(checkpoint):
        torch.manual_seed(7)
        return [*scenario(checkpoint), torch.get_rng_state()]

    return run


class Case(unittest.TestCase):
    def check_all_modes(self, scenario, skip=()):
        """scenario(checkpoint) -> tensors; equal in every mode, and nothing is left of it afterwards."""
        run = seeded(scenario)
        expected = run(plain)
        for mode, runs in MODES.items():
            if mode in skip:
                continue
            with self.subTest(mode=mode):
                gc.collect()
                before = encore.live_tensor_bytes()
                for number, result in enumerate(runs(run)):
                    self.check_same(result, expected, f"run {number}")
                    del result
                gc.collect()
                self.assertEqual(encore.live_tensor_bytes(), before, "bytes stay")

    def check_same(self, result, expected, where=""):
        self.assertEqual(len(result), len(expected), where)
        for i, (a, b) in enumerate(zip(result, expected)):
            self.assertTrue(same(a, b), f"{where}: tensor {i}\n{a}\n{b}")


def leaf(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def parameters(module):
    return [parameter.grad for parameter in module.parameters()]
