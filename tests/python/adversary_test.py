"""Other people's questions: scenarios in the manner of PyTorch's own tests of autograd, saved-tensor hooks and checkpoints.

Each runs plainly and then inside a scope, a checkpoint and a budget: the same tensors bit for bit and the same generator, or
an exception of the same type, and no byte more left behind than the plain run leaves. What differs stands in the lists below,
with a reason; what is listed and does not differ any more fails, too.
"""
import gc
import unittest
import warnings
from unittest import mock

import torch

import encore
from scenarios_around import SCENARIOS
from support import same

# Plain autograd refuses these, because what it holds was overwritten. Encore has the value as it was saved: from its op again,
# or copied before the write. The oracle is the plain run with a clone of everything that is saved.
GIVES_WHAT_WAS_SAVED = {
    "in_place_on_what_backward_needs_raises",
    "in_place_on_a_result_that_its_op_needs_raises",
    "in_place_on_the_base_of_a_saved_view_raises",
    "in_place_after_detach",
    "in_place_activations",
}
RAISES = {
    # One pair of hooks is allowed for a saved tensor, and it has Encore's.
    "hooks_registered_on_a_saved_tensor": "RuntimeError",
    # Memory from outside that changes after an op has read it, and no counter moves: plain autograd computes the gradient with
    # other bytes than the forward. Encore has held it to what it was.
    "numpy_shares_what_a_user_holds": "ChangedError",
    "numpy_writes_between_two_reads": "ChangedError",
}
# What PyTorch itself leaks rests in the next step: it does not fit into what the last one was refused at.
NOT_IN_A_BUDGET = {"an_unpack_hook_that_gives_no_tensor"}
# With `from encore import checkpoint` in place of PyTorch's own.
GIVES_WITH_ENCORES = {
    "autograd_grad_through_it_reentrant": "PyTorch's reentrant kind refuses autograd.grad",
    "inputs_without_gradients_reentrant": "PyTorch's reentrant kind loses the parameters' gradients and raises",
    "a_function_that_raises_the_second_time_reentrant": "the function is called once",
    "a_function_that_raises_the_second_time_not_reentrant": "the function is called once",
}
DIFFERS_WITH_ENCORES = {
    "a_buffer_updated_inside_reentrant": "PyTorch's updates the running statistics twice",
    "a_buffer_updated_inside_not_reentrant": "PyTorch's updates the running statistics twice",
}


def given_by(function):
    """What it gives, or the name of what it raises."""
    torch.manual_seed(7)
    try:
        return list(function())
    except Exception as error:
        if "budget: " in str(error):
            raise
        return type(error).__name__


def copied(given):
    """To be compared, with the generator's state."""
    if isinstance(given, str):
        return given
    return [None if t is None else t.detach().clone() for t in given] + [torch.get_rng_state()]


def outcome(function):
    return copied(given_by(function))


def in_scope(policy):
    def run(function):
        with encore.Scope(policy):
            yield outcome(function)

    return run


def in_checkpoint(function):
    yield outcome(lambda: encore.checkpoint(lambda _: function(), torch.zeros(1)))


def in_budget(function):
    """At half of what the plain step needs, or at the least that does."""
    budget = encore.MemoryBudget.fraction(0.5)
    budget.leave_alone_below(16)
    ran = 0
    for tries in range(20):
        try:
            with budget.step():
                given = given_by(function)
        except encore.BudgetError as error:
            # What PyTorch leaks where a hook raises rests in the next step.
            budget.set_limit(error.least_bytes + 64 * tries)
            continue
        result = copied(given)
        del given
        yield result
        ran += 1
        if ran == 3:
            return
    raise AssertionError("no budget does")


MODES = {"keep_all": in_scope(encore.keep_all()), "drop_all": in_scope(encore.drop_all()), "checkpoint": in_checkpoint,
         "budget": in_budget}


def agree(a, b):
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))


def bytes_left_by(run):
    before = encore.live_tensor_bytes()
    run()
    if encore.live_tensor_bytes() > before:
        gc.collect()
    return encore.live_tensor_bytes() - before


class Adversary(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")

    def check(self, name, mode):
        function = SCENARIOS[name]
        expected = outcome(function)
        if name in RAISES:
            self.assertFalse(agree(expected, RAISES[name]), "does not differ")
            expected = RAISES[name]
        elif name in GIVES_WHAT_WAS_SAVED:
            self.assertEqual(expected, "RuntimeError", "does not differ")
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
                expected = outcome(function)
        left = bytes_left_by(lambda: outcome(function))
        if name in NOT_IN_A_BUDGET and mode == "budget":
            self.assertGreater(left, 0, "does not leak")
            return
        runs = 0

        def run():
            nonlocal runs
            for got in MODES[mode](function):
                runs += 1
                self.assertTrue(agree(got, expected), f"{name} in {mode}, run {runs}:\n{got}\n{expected}")

        ours = bytes_left_by(run)
        if left <= 0:
            self.assertLessEqual(ours, 0, f"{name} in {mode}: bytes stay")

    def test_with_checkpoints_of_encores_in_place_of_pytorchs(self):
        from torch.utils import checkpoint as own

        names = [name for name in SCENARIOS if name.endswith("reentrant")] + ["sequential_checkpoints"]
        for name in names:
            with self.subTest(name):
                expected = outcome(SCENARIOS[name])
                with mock.patch.object(own, "checkpoint", encore.checkpoint), \
                        mock.patch.object(own, "checkpoint_sequential", encore.checkpoint_sequential):
                    got = outcome(SCENARIOS[name])
                    with mock.patch.object(own, "checkpoint", lambda f, *args, use_reentrant=None: f(*args)):
                        plain = outcome(SCENARIOS[name])
                if name in GIVES_WITH_ENCORES or name in DIFFERS_WITH_ENCORES:
                    self.assertFalse(agree(expected, plain), "does not differ")
                else:
                    self.assertTrue(agree(got, expected), f"{got}\n{expected}")
                self.assertTrue(agree(got, plain), f"{got}\n{plain}")  # as without any checkpoint


def add(name, mode):
    def test(self):
        self.check(name, mode)

    setattr(Adversary, f"test_{name}_in_{mode}", test)


for _name in SCENARIOS:
    for _mode in MODES:
        add(_name, _mode)

if __name__ == "__main__":
    unittest.main()
