"""Models trained within byte budgets: the plain run's bits, never a byte over, or refused with the figures."""
import contextlib
import os
import tempfile
import unittest

import torch
from torch import nn

import encore
from support import Case, leaf, same


class Transformer(nn.Module):
    def __init__(self, width=48, layers=3, vocabulary=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)))


def transformer_case():
    tokens = torch.randint(0, 64, (4, 32))
    return Transformer(), tokens, lambda y: nn.functional.cross_entropy(y.flatten(0, 1), tokens.flatten())


class Block(nn.Module):
    """A basic block of torchvision's."""

    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += self.shortcut(x)
        return self.relu(y)


def resnet_case():
    stem = [nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True)]
    blocks = [Block(8, 8, 1) for _ in range(5)] + [Block(8, 16, 2), Block(16, 16, 1)]
    net = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    x, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    return net, x, lambda y: nn.functional.cross_entropy(y, labels)


def train(make, step, steps=4, after=lambda: None):
    torch.manual_seed(5)
    net, x, loss_of = make()
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    for _ in range(steps):
        with step():
            optimizer.zero_grad()
            loss_of(net(x)).backward()
            optimizer.step()
        after()
    state = [*net.state_dict().values(), *[p.grad for p in net.parameters()], torch.get_rng_state()]
    return [tensor.detach().clone() for tensor in state]


class Training(Case):
    def check_within(self, make, part, waits=True):
        expected = train(make, contextlib.nullcontext)
        budget = encore.MemoryBudget.fraction(part)
        budget.wait_for_plans(waits)
        reports = []
        got = train(make, budget.step, after=lambda: reports.append(budget.report()))
        self.check_same(got, expected)
        self.assertEqual(reports[0].mode, encore.StepMode.LEARNING)
        for report in reports[1:]:
            self.assertFalse(report.failed, report.note)
            self.assertGreater(report.limit_bytes, 0)
            self.assertLessEqual(report.peak_bytes, report.limit_bytes)
        self.assertEqual(reports[-1].mode, encore.StepMode.PLANNED, reports[-1].note)
        if part < 1:
            self.assertGreater(reports[-1].values_dropped + reports[-1].values_packed, 0)

    def test_transformer_within_100_50_and_30_percent(self):
        for part in (1.0, 0.5, 0.3):
            with self.subTest(part=part):
                self.check_within(transformer_case, part)

    def test_transformer_within_50_percent_with_plans_that_are_made_meanwhile(self):
        self.check_within(transformer_case, 0.5, waits=False)

    def test_resnet_within_100_50_and_30_percent(self):
        for part in (1.0, 0.5, 0.3):
            with self.subTest(part=part):
                self.check_within(resnet_case, part)

    def test_a_limit_in_bytes_and_checkpoints_inside_are_hints(self):
        def make():
            net, tokens, loss_of = transformer_case()
            for layer in net.encoder.layers:
                layer.forward = encore.checkpoint(layer.forward)
            return net, tokens, loss_of

        expected = train(transformer_case, contextlib.nullcontext)
        budget = encore.MemoryBudget("8MiB")
        got = train(make, budget.step)
        self.check_same(got, expected)
        self.assertEqual(budget.limit_bytes, 8 << 20)
        self.assertLessEqual(budget.report().peak_bytes, 8 << 20)


class Refusals(Case):
    def test_a_step_that_does_not_fit_is_refused_with_the_figures_and_undone(self):
        net = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 64))
        x = torch.randn(256, 64)
        before = [t.clone() for t in net.state_dict().values()]
        rng = torch.get_rng_state()
        budget = encore.MemoryBudget(encore.live_tensor_bytes() + 100_000)
        with self.assertRaises(encore.BudgetError) as caught:
            with budget.step():
                nn.functional.dropout(net(x)).sum().backward()
        error = caught.exception
        self.assertEqual(error.limit_bytes, budget.limit_bytes)
        self.assertGreater(error.needed_bytes, error.limit_bytes)
        self.assertIn("aten::", error.op)
        self.assertIsInstance(error, encore.Error)
        self.check_same([*net.state_dict().values(), torch.get_rng_state()], [*before, rng])
        self.assertTrue(budget.report().refused)
        self.assertTrue(all(p.grad is None for p in net.parameters()))
        net(x).sum().backward()  # without a step it just runs

    def test_what_rests_does_not_fit(self):
        held = torch.ones(1 << 18)
        with self.assertRaises(encore.BudgetError):
            with encore.MemoryBudget(1 << 18).step():
                pass
        del held

    def test_limits_that_are_none(self):
        for limit in ("", "many", "-1MiB", 0, -5):
            with self.assertRaises(encore.InvalidArgument):
                encore.MemoryBudget(limit)
            with self.assertRaises(ValueError):
                encore.MemoryBudget(limit)
        with self.assertRaises(encore.InvalidArgument):
            encore.MemoryBudget.fraction(1.5)

    def test_an_exception_leaves_the_step_and_nothing_is_learnt(self):
        budget = encore.MemoryBudget.fraction(0.5)
        with self.assertRaises(KeyboardInterrupt), budget.step():
            leaf(64).exp()
            raise KeyboardInterrupt
        self.assertTrue(budget.report().failed)
        self.assertFalse(budget.report().refused)
        with budget.step():
            leaf(64).exp().sum().backward()
        self.assertFalse(budget.report().failed)

    def test_steps_run_in_turn(self):
        budget = encore.MemoryBudget("1GiB")
        with budget.step():
            with self.assertRaises(encore.ScopeError):
                with budget.step():
                    pass


class Reports(Case):
    def test_reports_name_modules_and_show_themselves(self):
        torch.manual_seed(5)
        net, tokens, loss_of = transformer_case()
        budget = encore.MemoryBudget.fraction(0.5)
        budget.name_modules_of(net)
        for _ in range(3):
            with budget.step() as step:
                loss = loss_of(net(tokens))
                loss.backward()
                step.set_loss(loss)
        report = budget.report()
        self.assertEqual(report.mode, encore.StepMode.PLANNED)
        modules = {value.module for value in report.values}
        self.assertTrue({"encoder.layers.1.norm1", "encoder.layers.2.self_attn"} <= modules, modules)
        self.assertIn("budget", str(report))
        self.assertIn("<pre>", report._repr_html_())
        self.assertIn("<iframe", budget._repr_html_())
        with tempfile.TemporaryDirectory() as folder:
            page, data = os.path.join(folder, "run.html"), os.path.join(folder, "run.json")
            budget.save_report(page, "a run")
            budget.save_report(data)
            for path, text in ((page, "a run"), (data, "encore-run-1")):
                with open(path, encoding="utf-8") as file:
                    self.assertIn(text, file.read())


class Rehearsals(Case):
    def training(self):
        torch.manual_seed(3)
        layers = [(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Tanh(), nn.Dropout(0.2)) for _ in range(6)]
        net = nn.Sequential(*[module for layer in layers for module in layer])
        x, optimizer = torch.randn(512, 64), torch.optim.Adam(net.parameters())

        def step(rows=128):
            optimizer.zero_grad(set_to_none=True)
            net(x[:rows]).square().mean().backward()
            optimizer.step()

        def state():
            tensors = [t.detach().clone() for t in net.state_dict().values()] + [torch.get_rng_state()]
            tensors += [torch.zeros(0) if p.grad is None else p.grad.clone() for p in net.parameters()]
            kept = [v for p in net.parameters() for v in optimizer.state.get(p, {}).values()]
            return tensors + [torch.as_tensor(v).clone() for v in kept]

        return optimizer, step, state

    def assert_same(self, now, before):
        self.assertEqual(len(now), len(before))
        self.assertTrue(all(same(a, b) for a, b in zip(now, before)))

    def test_changes_nothing_and_the_first_step_is_planned(self):
        optimizer, step, state = self.training()
        for trained in range(2):
            before, live = state(), encore.live_tensor_bytes()
            budget = encore.MemoryBudget("1GiB")
            rehearsed = budget.rehearse(step, [optimizer])
            self.assertEqual(encore.live_tensor_bytes(), live)
            self.assert_same(state(), before)
            del before
            self.assertLess(rehearsed.first.least_bytes, rehearsed.first.plain_peak_bytes)
            step()
        optimizer, step, state = self.training()
        budget = encore.MemoryBudget("1GiB")
        budget.set_limit(budget.rehearse(step, [optimizer]).first.least_bytes)
        with budget.step():
            step()
        self.assertEqual(budget.report().mode, encore.StepMode.PLANNED, budget.report())

    def test_errors_arrive_and_nothing_has_changed(self):
        optimizer, step, state = self.training()
        before = state()
        with self.assertRaises(encore.BudgetError):
            encore.MemoryBudget(encore.live_tensor_bytes() + 1000).rehearse(step, [optimizer])

        def fails():
            step()
            raise KeyError("at the end")

        with self.assertRaises(KeyError):
            encore.MemoryBudget("1GiB").rehearse(fails, [optimizer])
        self.assert_same(state(), before)

    def test_the_largest_batch(self):
        optimizer, step, _ = self.training()
        budget = encore.MemoryBudget("1GiB")
        at_200 = budget.rehearse(lambda: step(200), [optimizer])
        budget.set_limit(max(at_200.first.least_bytes, at_200.later.least_bytes) + 1000)
        found = budget.largest_batch(step, 2, 512, [optimizer])
        self.assertIn(found.batch, range(200, 220))
        self.assertTrue(found.forecast.fits)
        with budget.step():
            step(found.batch)
        self.assertLessEqual(budget.report().peak_bytes, budget.limit_bytes)


if __name__ == "__main__":
    unittest.main()
