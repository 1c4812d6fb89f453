"""Generators, buffers, in-place changes, autocast, hooks: as in the plain run."""
import unittest

import torch
from torch import nn

import encore
from support import Case, leaf, parameters, plain, rerun


class State(Case):
    def test_batch_norm_counts_once(self):
        def scenario(checkpoint):
            net, x = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), leaf(4, 3, 8, 8)
            y = checkpoint(net, x)
            y.square().sum().backward()
            return [y.detach(), x.grad, *parameters(net), *[b.clone() for b in net.buffers()]]

        self.check_all_modes(scenario)

    def test_in_place_ops_on_intermediates_views_and_results(self):
        def scenario(checkpoint):
            x = leaf(6, 6)

            def f(t):
                h = t * 2
                h[1:3].neg_()
                h[:, 2].mul_(t[:, 0])
                return h.sin()

            y = checkpoint(f, x)
            y.mul_(3)
            y.sum().backward()
            return [y.detach(), x.grad]

        self.check_all_modes(scenario)

    def test_a_generator_of_ones_own(self):
        def scenario(checkpoint):
            generator = torch.Generator().manual_seed(3)
            x = leaf(16)
            y = checkpoint(lambda t: (t.exp() * torch.rand(16, generator=generator)).sin(), x)
            y.sum().backward()
            return [y.detach(), x.grad, generator.get_state()]

        self.check_all_modes(scenario)

    def test_autocast_inside_and_outside(self):
        def scenario(checkpoint):
            net, x = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16)), leaf(4, 16)

            def inside(t):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    return net(t)

            y = checkpoint(inside, x)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = checkpoint(net, y.float())
            y.float().sum().backward()
            return [y.detach(), x.grad, *parameters(net)]

        self.check_all_modes(scenario)

    def test_no_grad_and_inference_mode_inside(self):
        def scenario(checkpoint):
            x = leaf(8)

            def f(t):
                with torch.no_grad():
                    scale = t.exp().mean()
                with torch.inference_mode():
                    number = float(t.exp().sum())
                return (t * scale).exp() * number

            y = checkpoint(f, x)
            y.sum().backward()
            return [y.detach(), x.grad]

        self.check_all_modes(scenario)

    def test_input_changed_between_forward_and_backward_is_an_error(self):
        for checkpoint in (encore.checkpoint, rerun):
            x = leaf(8)
            h = x * 1
            y = checkpoint(lambda t: t.exp().sin(), h)
            with torch.no_grad():
                h.add_(1)
            with self.assertRaises(encore.ChangedError) as caught:
                y.sum().backward()
            self.assertIn("changed", str(caught.exception))
            self.assertIsInstance(caught.exception, encore.ReplayError)

    def test_parameter_changed_between_forward_and_backward_is_an_error(self):
        net, x = nn.Linear(8, 8), leaf(2, 8)
        y = encore.checkpoint(lambda t: net(t).exp(), x)
        with torch.no_grad():
            net.weight.add_(1)
        with self.assertRaises(encore.ChangedError):
            y.sum().backward()


class Hooks(Case):
    def test_hooks_fire_as_often(self):
        def scenario(checkpoint):
            fired = []
            net, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), leaf(4, 8)
            net.register_full_backward_hook(lambda *_: fired.append("module"))
            x.register_hook(lambda g: fired.append("leaf") or g * 2)

            def f(t):
                h = net(t)
                h.register_hook(lambda g: fired.append("inner") or g * 3)
                return h.exp()

            y = checkpoint(f, x)
            y.register_hook(lambda g: fired.append("result") or g * 5)
            y.sum().backward()
            order = {name: i for i, name in enumerate(["result", "inner", "module", "leaf"])}
            return [x.grad, torch.tensor([order[name] for name in fired]), *parameters(net)]

        self.check_all_modes(scenario)

    def test_the_users_own_saved_tensor_hooks_win_where_they_are_innermost(self):
        def scenario(checkpoint):
            packed = []
            x = leaf(8)

            def f(t):
                with torch.autograd.graph.saved_tensors_hooks(lambda s: packed.append(1) or s * 1, lambda s: s * 1):
                    inner = t.exp()
                return inner.sin()

            y = checkpoint(f, x)
            y.sum().backward()
            return [x.grad, torch.tensor(min(len(packed), 1))]

        self.check_all_modes(scenario)

    def test_a_region_inside_the_users_hooks_wins(self):
        packed = []
        x = leaf(8)
        with torch.autograd.graph.saved_tensors_hooks(lambda s: packed.append(1) or s, lambda s: s):
            with encore.Scope(encore.drop_all()) as scope:
                y = x.exp().sin()
            self.assertEqual(packed, [])
            z = y.exp()
        self.assertEqual(len(packed), 1)
        z.sum().backward()
        self.assertGreater(scope.stats().values_dropped, 0)

    def test_where_hooks_are_forbidden_tensors_are_saved_plainly(self):
        x = leaf(8)
        with encore.Scope(encore.drop_all()) as scope:
            with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
                y = x.exp()
        self.assertEqual(scope.stats().values_dropped, 0)
        y.sum().backward()
        self.check_same([x.grad], [x.detach().exp()])

    def test_anomaly_mode(self):
        def scenario(checkpoint):
            x = leaf(8)
            with torch.autograd.detect_anomaly(check_nan=False):
                y = checkpoint(lambda t: t.exp().sin(), x)
                y.sum().backward()
            return [x.grad]

        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.check_all_modes(scenario)


class Unannounced(Case):
    """A backward that does not come by the engine object that Encore has put in place."""

    @staticmethod
    def backward(loss):
        torch._C._ImperativeEngine().run_backward(
            (loss,), (torch.ones_like(loss),), False, False, (), allow_unreachable=True, accumulate_grad=True
        )

    def test_it_is_noticed_all_the_same(self):
        def scenario(checkpoint):
            net, x = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 8)), leaf(16, 8)
            for _ in range(2):
                self.backward(checkpoint(net, checkpoint(net, x)).sum())
            return [x.grad, *parameters(net)]

        self.check_all_modes(scenario)

    def test_one_inside_a_function_that_another_calls_again(self):
        def scenario(checkpoint):
            x, w = leaf(4, 4), leaf(4, 4)

            def f(t):
                h = (t @ w).exp()
                (inner,) = torch._C._ImperativeEngine().run_backward(
                    (h.sum(),), (torch.ones(()),), True, False, (w,), allow_unreachable=False, accumulate_grad=False
                )
                return h * inner

            y = checkpoint(f, x)
            self.backward(y.sum())
            return [y.detach(), x.grad, w.grad]

        self.check_all_modes(scenario)

    def test_its_end_is_known_also_if_it_throws(self):
        x = leaf(8)

        def fail(_):
            raise KeyError("in backward")

        with encore.Scope(encore.drop_all()) as scope:
            for _ in range(2):
                h = x.exp()
                h.register_hook(fail)
                with self.assertRaises(KeyError):
                    self.backward(h.sin().exp().sum())
            before = scope.stats().ops_recorded
            x.exp().sin()
            self.assertEqual(scope.stats().ops_recorded, before + 2)

    def test_a_refused_step_takes_its_gradients_back(self):
        net = nn.Linear(64, 64)
        budget = encore.MemoryBudget(encore.live_tensor_bytes() + 200_000)
        with self.assertRaises(encore.BudgetError), budget.step():
            self.backward(net(torch.randn(4, 64)).sum())
            torch.ones(100_000)
        self.assertTrue(all(p.grad is None for p in net.parameters()))


class Errors(Case):
    def test_an_exception_out_of_forward_arrives_unchanged_and_the_next_step_works(self):
        class Mine(Exception):
            pass

        def bad(t):
            t.exp()
            raise Mine("mine")

        x = leaf(8)
        for checkpoint in (encore.checkpoint, rerun):
            with self.assertRaisesRegex(Mine, "mine"):
                checkpoint(bad, x)
            x.grad = None
            checkpoint(torch.exp, x).sum().backward()
            self.check_same([x.grad], [x.detach().exp()])
        with self.assertRaises(Mine), encore.Scope(encore.drop_all()):
            bad(x)
        x.grad = None
        torch.exp(x).sum().backward()

    def test_an_exception_out_of_backward_arrives_unchanged_and_nothing_stays_switched_on(self):
        class Mine(Exception):
            pass

        def fail(_):
            raise Mine("in backward")

        x = leaf(8)
        with encore.Scope(encore.drop_all()) as scope:
            for _ in range(2):
                h = x.exp().sin()
                h.register_hook(fail)
                with self.assertRaisesRegex(Mine, "in backward"):
                    h.exp().sum().backward()
            before = scope.stats().ops_recorded
            y = x.exp().sin()
            self.assertEqual(scope.stats().ops_recorded, before + 2)  # recording goes on
        y.sum().backward()
        self.check_same([x.grad], [torch.cos(x.detach().exp()) * x.detach().exp()])

    def test_what_the_function_raises_when_called_again_is_the_cause(self):
        calls = []

        def twice(t):
            calls.append(1)
            if len(calls) > 1:
                raise KeyError("again")
            return t.exp().sin()

        x = leaf(8)
        y = rerun(twice, x)
        with self.assertRaises(encore.ReplayError) as caught:
            y.sum().backward()
        self.assertIsInstance(caught.exception.__cause__, KeyError)

    def test_keyboard_interrupt_goes_through_a_function_called_again(self):
        calls = []

        def twice(t):
            calls.append(1)
            if len(calls) > 1:
                raise KeyboardInterrupt
            return t.exp().sin()

        y = rerun(twice, leaf(8))
        with self.assertRaises(KeyboardInterrupt):
            y.sum().backward()

    def test_a_policy_may_be_a_python_function_and_may_raise(self):
        seen = []

        def rule(value):
            seen.append((value.op, value.bytes, value.path))
            return encore.Action.RECOMPUTE if value.op == "aten::exp" else None

        x = leaf(64)
        with encore.Scope(encore.Policy(rule), name="here") as scope:
            y = x.exp().sin().exp()
        y.sum().backward()
        self.assertIn(("aten::exp", 256, "here"), seen)
        self.assertGreater(scope.stats().values_dropped, 0)

        def bad(_):
            raise LookupError("no rule")

        with self.assertRaisesRegex(LookupError, "no rule"):
            with encore.Scope(encore.Policy(bad)):
                x.exp().sin()

    def test_values_with_a_changed_bit_are_found(self):
        """A kernel in Python that does not do the same twice."""
        library = torch.library.Library("encore_state_test", "DEF")
        library.define("drifting(Tensor x) -> Tensor")
        times = []
        library.impl("drifting", lambda x: times.append(1) or x * 1 + len(times), "CPU")
        check = encore.CheckpointOptions(determinism_check=encore.DeterminismCheck.VALUES)

        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = torch.ops.encore_state_test.drifting(x)
                ctx.save_for_backward(y)
                return y * y

            @staticmethod
            def backward(ctx, grad):
                return 2 * ctx.saved_tensors[0] * grad

        x = leaf(8)
        y = encore.checkpoint(lambda t: Square.apply(t.exp()), x, options=check)
        with self.assertRaises(encore.DeterminismError):
            y.sum().backward()


if __name__ == "__main__":
    unittest.main()
