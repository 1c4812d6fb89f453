"""Values and gradients equal the plain run bit for bit."""
import collections
import unittest

import torch
from torch import nn

import encore
from support import Case, leaf, parameters, plain, same


def block(width=32, dropout=0.25):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * width, width))


class Values(Case):
    def test_modules_and_what_they_capture(self):
        def scenario(checkpoint):
            net, x, captured = block(), leaf(8, 32), leaf(32)
            y = checkpoint(lambda t: net(t) * captured, x)
            y.square().sum().backward()
            return [y.detach(), x.grad, captured.grad, *parameters(net)]

        self.check_all_modes(scenario)

    def test_chained_and_nested_three_deep(self):
        def scenario(checkpoint):
            nets, x = [block() for _ in range(3)], leaf(8, 32)

            def deep(t, level):
                t = nets[level](t).sin()
                return checkpoint(deep, t, level + 1) if level < 2 else t

            y = checkpoint(deep, checkpoint(nets[0], x), 0)
            y.sum().backward()
            return [y.detach(), x.grad, *[g for net in nets for g in parameters(net)]]

        self.check_all_modes(scenario)

    def test_arguments_and_results_of_all_kinds(self):
        Pair = collections.namedtuple("Pair", "a b")

        def f(t, pair, mapping, *, scale, missing=None):
            self.assertIsNone(missing)
            out = (t @ pair.a).relu() * scale + mapping["bias"]
            return {"out": out, "index": out.argmax(1), "text": "same", "pair": (out > 0, pair.b)}

        def scenario(checkpoint):
            x, w, bias, other = leaf(4, 6), leaf(6, 5), leaf(5), leaf(3)
            result = checkpoint(f, x, Pair(w, other), {"bias": bias}, scale=1.5)
            (result["out"].sum() + result["pair"][1].sum()).backward()
            return [result["out"].detach(), result["index"], result["pair"][0], x.grad, w.grad, bias.grad, other.grad]

        self.check_all_modes(scenario)

    def test_input_that_is_output_and_view_and_the_same_twice(self):
        def scenario(checkpoint):
            x = leaf(4, 4)
            h = x.tanh()
            same_one, view, product = checkpoint(lambda a, b: (a, a[1:].t(), (a * b).exp()), h, h)
            (product.sum() + view.square().sum() + same_one.sum()).backward()
            return [x.grad, product.detach(), view.detach()]

        self.check_all_modes(scenario)

    def test_only_some_outputs_are_used_and_some_need_no_gradient(self):
        def scenario(checkpoint):
            x = leaf(5)
            a, b, c = checkpoint(lambda t: (t.exp(), t.sin(), t.detach().cos()), x)
            self.assertFalse(c.requires_grad)
            b.sum().backward()
            return [x.grad, a.detach(), c]

        self.check_all_modes(scenario)

    def test_without_gradients_it_just_runs(self):
        calls = []
        x = torch.randn(4)
        with torch.no_grad():
            y = encore.checkpoint(lambda t: calls.append(1) or t.exp(), x)
        self.assertTrue(same(y, x.exp()))
        self.assertEqual(len(calls), 1)
        self.assertFalse(encore.checkpoint(torch.exp, x).requires_grad)

    def test_double_and_third_order_gradients(self):
        def scenario(checkpoint):
            x, w = leaf(4, 4, dtype=torch.float64), leaf(4, 4, dtype=torch.float64)
            y = checkpoint(lambda t: (t @ w).tanh().pow(3).sum(), x)
            (g,) = torch.autograd.grad(y, x, create_graph=True)
            (gg,) = torch.autograd.grad(g.square().sum(), x, create_graph=True)
            gg.sin().sum().backward()
            return [g.detach(), gg.detach(), x.grad, w.grad]

        self.check_all_modes(scenario)

    def test_retain_graph_and_partial_backwards(self):
        def scenario(checkpoint):
            x = leaf(6, 6)
            y = checkpoint(lambda t: torch.stack([t.sin().exp(), t.cos().exp()]), x)
            y[0].sum().backward(retain_graph=True)
            first = x.grad.clone()
            y[1].sum().backward(retain_graph=True)
            (chosen,) = torch.autograd.grad(y.sum(), x)
            return [first, x.grad, chosen]

        self.check_all_modes(scenario)

    def test_backward_inside_the_function(self):
        def scenario(checkpoint):
            x, w = leaf(4, 4), leaf(4, 4)

            def f(t):
                h = (t @ w).exp()
                (inner,) = torch.autograd.grad(h.sum(), w, retain_graph=True)
                return h * inner

            y = checkpoint(f, x)
            y.sum().backward()
            return [y.detach(), x.grad, w.grad]

        self.check_all_modes(scenario)

    def test_backward_for_chosen_inputs(self):
        def scenario(checkpoint):
            net, x = block(dropout=0.0), leaf(4, 32)
            y = checkpoint(net, x).sum()
            y.backward(inputs=[net[0].weight])
            return [net[0].weight.grad, x.grad, net[3].weight.grad]

        self.check_all_modes(scenario)

    def test_many_checkpoints_in_one_graph(self):
        def scenario(checkpoint, count):
            torch.manual_seed(7)
            x = leaf(16)
            y = x
            for _ in range(count):
                y = checkpoint(lambda t: t.sin() * 1.01, y)
            y.sum().backward()
            return [y.detach(), x.grad]

        self.check_same(scenario(encore.checkpoint, 2000), scenario(plain, 2000))
        self.check_all_modes(lambda checkpoint: scenario(checkpoint, 50))

    def test_sequential_in_segments(self):
        def scenario(checkpoint):
            layers = [nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Dropout(0.1)) for _ in range(7)]
            net, x = nn.Sequential(*layers), leaf(3, 16)
            y = net(x) if checkpoint is plain else encore.checkpoint_sequential(net, 3, x)
            y.sum().backward()
            return [y.detach(), x.grad, *parameters(net)]

        self.check_all_modes(scenario)

    def test_recurrent_layers(self):
        def scenario(checkpoint):
            net, x = nn.LSTM(8, 8, num_layers=2, dropout=0.3), leaf(5, 3, 8)
            y, (h, c) = checkpoint(lambda t: net(t), x)
            (y.sum() + h.sum() + c.sum()).backward()
            return [y.detach(), x.grad, *parameters(net)]

        self.check_all_modes(scenario)


class CustomFunctions(Case):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x * x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            x, square = ctx.saved_tensors
            return grad * 3 * square + 0 * x

    def test_custom_function_inside(self):
        def scenario(checkpoint):
            x = leaf(8)
            y = checkpoint(lambda t: self.Cube.apply(t.exp()).sin(), x)
            y.sum().backward()
            return [y.detach(), x.grad]

        self.check_all_modes(scenario)

    def test_checkpoint_inside_a_custom_function(self):
        def scenario(checkpoint):
            class Outer(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    with torch.enable_grad():
                        inner = x.detach().requires_grad_()
                        ctx.inner, ctx.y = inner, checkpoint(lambda t: t.exp().sin().exp(), inner)
                    return ctx.y.detach()

                @staticmethod
                def backward(ctx, grad):
                    with torch.enable_grad():
                        return torch.autograd.grad(ctx.y, ctx.inner, grad)[0]

            x = leaf(8)
            y = Outer.apply(x)
            y.sum().backward()
            return [y.detach(), x.grad]

        self.check_all_modes(scenario)

    def test_reentrant_backward_in_backward(self):
        def scenario(checkpoint):
            class Reenter(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x.sin()

                @staticmethod
                def backward(ctx, grad):
                    (x,) = ctx.saved_tensors
                    with torch.enable_grad():
                        t = x.detach().requires_grad_()
                        y = checkpoint(lambda u: u.sin().exp().log(), t)
                        y.backward(grad)
                    return t.grad

            x = leaf(8)
            y = checkpoint(lambda t: Reenter.apply(t.exp()).exp(), x)
            y.sum().backward()
            return [y.detach(), x.grad]

        self.check_all_modes(scenario)

    def test_pytorchs_own_checkpoints_inside(self):
        from torch.utils.checkpoint import checkpoint as own

        for reentrant in (True, False):
            def scenario(checkpoint):
                net, x = block(), leaf(8, 32)
                y = checkpoint(lambda t: own(net, t.exp(), use_reentrant=reentrant).exp(), x)
                y.sum().backward()
                return [y.detach(), x.grad, *parameters(net)]

            with self.subTest(reentrant=reentrant):
                self.check_all_modes(scenario)


if __name__ == "__main__":
    unittest.main()
