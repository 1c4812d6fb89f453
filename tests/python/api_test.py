"""The module's face: calls as torch.utils.checkpoint has them, decorators, memory, profiler, help, types."""
import gc
import inspect
import os
import subprocess
import sys
import tempfile
import unittest

import torch
from torch import nn

import encore
from support import Case, leaf, same


class Calls(Case):
    def test_the_call_of_torch_utils_checkpoint(self):
        from torch.utils import checkpoint as torchs

        def f(a, b, scale=1.0):
            return (a * b).exp() * scale

        for options in ({}, {"use_reentrant": True}, {"use_reentrant": False}, {"preserve_rng_state": False}):
            x, w = leaf(8), leaf(8)
            encore.checkpoint(f, x, w, **options).sum().backward()
            mine = [x.grad, w.grad]
            x.grad = w.grad = None
            torchs.checkpoint(f, x, w, **options).sum().backward()
            self.check_same(mine, [x.grad, w.grad])
        x = leaf(8)
        self.check_same([encore.checkpoint(f, x, x, scale=2.0).detach()], [f(x, x, 2.0).detach()])
        net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(5)])
        x = leaf(2, 4)
        self.check_same([encore.checkpoint_sequential(net, 2, x, use_reentrant=False).detach()], [net(x).detach()])

    def test_decorators(self):
        @encore.checkpoint
        def block(x):
            "Its own text."
            return x.exp().sin()

        @encore.checkpoint(options=encore.CheckpointOptions(name="named", policy=encore.drop_all()))
        def other(x):
            return x.exp().sin()

        self.assertEqual((block.__name__, block.__doc__), ("block", "Its own text."))
        for function in (block, other, encore.checkpoint(nn.Tanh())):
            with encore.CheckpointProfiler() as profiler:
                x = leaf(1024)
                function(x).sum().backward()
            self.assertEqual(profiler.report().checkpoint_count, 1)
            self.assertIsNotNone(x.grad)

    def test_arguments_that_hold_no_tensor(self):
        for call in (lambda: encore.checkpoint(lambda *_: leaf(3), 1, "x"), encore.checkpoint(lambda: leaf(3))):
            with self.assertRaisesRegex(encore.InvalidArgument, "tensor"):
                call()
        with self.assertRaises(encore.InvalidArgument):
            encore.checkpoint(torch.exp, leaf(3), context_fn=lambda: None)
        with self.assertRaises(encore.InvalidArgument):
            encore.checkpoint(torch.exp, leaf(3), determinism_check="some")
        with self.assertRaises(encore.ScopeError):
            encore.checkpoint(leaf(3))

    def test_marked_values(self):
        x = leaf(1024)
        with encore.Scope() as scope:
            h = encore.checkpoint(x.exp())
            small = encore.adaptive_checkpoint(x.sin(), 1 << 20)
            y = h.sin() + small.cos()
            del h, small
        self.assertEqual(scope.stats().values_dropped, 1)
        y.sum().backward()
        self.assertGreater(scope.stats().ops_replayed, 0)
        self.assertIn("aten::exp", scope.dump())

    def test_segments_of_a_scope(self):
        x = leaf(256)
        with encore.Scope(segments=[(0, 2)]) as scope:
            y = x.exp().sin().exp().cos().exp()
        self.assertGreater(scope.stats().values_dropped, 0)
        y.sum().backward()
        with self.assertRaises(encore.InvalidArgument):
            with encore.Scope(segments=[(5, 2)]):
                pass


class Memory(Case):
    def test_the_peak_falls(self):
        def run(checkpoint):
            x = leaf(1 << 16)
            with encore.MemoryScope() as memory:
                y = x
                for _ in range(8):
                    y = checkpoint(lambda t: t.sin().exp().cos().exp().sin(), y)
                y.sum().backward()
            return memory.peak_growth_bytes

        self.assertLess(run(encore.checkpoint), 0.5 * run(lambda f, t: f(t)))

    def test_bytes_and_reuse(self):
        before = encore.live_tensor_bytes()
        x = torch.empty(1 << 20)
        self.assertEqual(encore.live_tensor_bytes() - before, 4 << 20)
        encore.reset_peak_tensor_bytes()
        del x
        self.assertGreaterEqual(encore.peak_tensor_bytes(), before + (4 << 20))
        with encore.BlockReuse():
            y = torch.empty(1 << 20)
            del y
            self.assertGreaterEqual(encore.BlockReuse.held_bytes(), 4 << 20)
        self.assertEqual(encore.BlockReuse.held_bytes(), 0)
        self.assertEqual(encore.parse_bytes("2GiB"), 2 << 30)
        self.assertEqual(encore.format_bytes(1536), "1.5 KiB")

    def test_a_checkpoint_that_saves_nothing_is_reported(self):
        with encore.CheckpointProfiler() as profiler:
            x = leaf(64)
            held = []
            encore.checkpoint(lambda t: held.append(t.exp()) or held[0].sin(), x).sum().backward()
            encore.checkpoint(lambda t: t * 1, x)
        self.assertTrue(profiler.report().warnings)
        self.assertIn("checkpoint", str(profiler.report()))

    def test_a_graph_dropped_without_backward_leaves_nothing(self):
        gc.collect()
        before = encore.live_tensor_bytes()
        x = leaf(4096)
        y = encore.checkpoint(lambda t: t.exp().sin(), x)
        del x, y
        gc.collect()
        self.assertEqual(encore.live_tensor_bytes(), before)


class Worlds(Case):
    """Transforms in which nothing is recorded, or below which replay runs."""

    def test_replay_below_a_vmapped_backward(self):
        x = leaf(4, dtype=torch.float64)

        def f(t):
            return encore.checkpoint(lambda u: u.exp().sin().exp(), t)

        got = torch.autograd.functional.jacobian(f, x.detach(), vectorize=True)
        expected = torch.autograd.functional.jacobian(lambda u: u.exp().sin().exp(), x.detach(), vectorize=True)
        self.assertTrue(same(got, expected))

    def test_functorch_inside_a_scope(self):
        import functorch

        x = torch.randn(5, 4)

        def f(t):
            return t.exp().sin().sum()

        expected = functorch.vmap(functorch.grad(f))(x)
        with encore.Scope(encore.drop_all()):
            got = functorch.vmap(functorch.grad(f))(x)
        self.assertTrue(same(got, expected))

    def test_gradcheck_and_hessian(self):
        x = leaf(3, dtype=torch.float64)
        self.assertTrue(torch.autograd.gradcheck(lambda t: encore.checkpoint(lambda u: u.exp().sin(), t), x))
        self.assertTrue(torch.autograd.gradgradcheck(lambda t: encore.checkpoint(lambda u: u.exp().sin(), t), x))

        def f(t):
            return t.exp().sin().sum()

        self.assertTrue(
            same(
                torch.autograd.functional.hessian(lambda t: encore.checkpoint(f, t), x.detach()),
                torch.autograd.functional.hessian(f, x.detach()),
            )
        )

    def test_torchscript(self):
        @torch.jit.script
        def f(x):
            return (x.exp() * x).sin()

        for _ in range(4):
            x = leaf(16)
            encore.checkpoint(f, x).sum().backward()
            got, x.grad = x.grad, None
            f(x).sum().backward()
            self.check_same([got], [x.grad])


class Face(Case):
    def test_everything_public_has_a_text(self):
        for name in encore.__all__:
            if inspect.isclass(getattr(encore, name)) or inspect.isfunction(getattr(encore, name)):
                self.assertTrue(getattr(encore, name).__doc__, name)
        for name in ("MemoryBudget", "checkpoint", "Scope", "BudgetError"):
            self.assertIn(name, encore.__all__)

    def test_errors_are_one_family(self):
        for name in ("InvalidArgument", "ScopeError", "ReplayError", "ChangedError", "BudgetError", "SlotError"):
            self.assertTrue(issubclass(getattr(encore, name), encore.Error))
        self.assertTrue(issubclass(encore.Error, RuntimeError))

    def test_another_torch_is_refused_with_a_sentence(self):
        code = "import torch; torch.__version__ = '9.9.9'; import encore"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("build it against this one", done.stderr)

    def check_types(self, *arguments, folder):
        """mypy's words, with torch's own types left out: they take it a minute of processor time."""
        done = subprocess.run(
            ["/usr/bin/mypy", "--strict", "--no-site-packages", "--ignore-missing-imports", "--allow-subclassing-any",
             "--cache-dir=/dev/null", *arguments],
            capture_output=True, text=True, cwd=folder, env={**os.environ, "MYPYPATH": folder})
        return done.stdout + done.stderr

    def test_types(self):
        package = os.path.dirname(os.path.realpath(os.path.join(os.path.dirname(encore.__file__), "_errors.py")))
        folder = os.path.dirname(package)
        self.assertIn("no issues found", self.check_types("encore", folder=folder))
        right = """
import encore

@encore.checkpoint
def block(x: int) -> str:
    return str(x)

budget = encore.MemoryBudget("1GiB")
with budget.step() as step:
    step.set_loss(1.0)
peak: int = budget.report().peak_bytes
text: str = block(3)
policy: encore.Policy = encore.keep_matmuls() | encore.Policy(lambda value: encore.Action.KEEP if value.bytes > 9 else None)
"""
        wrong = "import encore\nencore.MemoryBudget(2.5)\nencore.Scope(3)\nx: str = encore.live_tensor_bytes()\n"
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(right)
            file.flush()
            self.assertIn("no issues found", self.check_types(file.name, folder=folder))
            file.seek(0)
            file.truncate()
            file.write(wrong)
            file.flush()
            self.assertIn("Found 3 errors", self.check_types(file.name, folder=folder))


if __name__ == "__main__":
    unittest.main()
