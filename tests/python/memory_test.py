"""Bytes: what is freed when, what is never copied, and figures that agree with the allocator; and checks that find changes."""
import gc
import os
import signal
import threading
import unittest

import torch
from torch import nn

import encore
from support import Case, leaf

MIB = 1 << 20


def chain(x, length=6):
    for _ in range(length):
        x = x.sin().exp()
    return x


class Freed(Case):
    def test_step_by_step_during_backward_also_with_retain_graph(self):
        """A hook halfway sees fewer live bytes than plain training has there: what the later half needed is gone."""
        def live_halfway(checkpoint, retain_graph):
            x = leaf(MIB // 4)
            h = checkpoint(chain, checkpoint(chain, x))
            seen = []
            h.register_hook(lambda _: seen.append(encore.live_tensor_bytes()))
            y = checkpoint(chain, checkpoint(chain, h))
            del h
            before = encore.live_tensor_bytes()
            y.backward(torch.ones_like(y), retain_graph=retain_graph)
            after = encore.live_tensor_bytes()
            return seen[0] - before, after - before

        for retain_graph in (False, True):
            halfway, after = live_halfway(encore.checkpoint, retain_graph)
            self.assertLess(halfway, 16 * MIB)  # one checkpoint's values, its gradient and little else
            self.assertLess(after, 2 * MIB)  # the leaf's gradient

    def test_the_loss_gone_nothing_stays(self):
        gc.collect()
        before = encore.live_tensor_bytes()
        for _ in range(3):
            x = leaf(1024)
            with encore.Scope(encore.drop_all()):
                loss = chain(encore.checkpoint(chain, x)).sum()
            loss.backward()
            del x, loss
        gc.collect()
        self.assertEqual(encore.live_tensor_bytes(), before)

    def test_values_that_share_a_storage_are_kept_once(self):
        x = leaf(256, 256)
        with encore.Scope(encore.keep_all()) as scope:
            h = x.exp()
            y = h.t().sin() + h.view(-1).cos().view(256, 256)
        self.assertEqual(scope.stats().bytes_kept, h.numel() * 4)
        del y

    def test_parameters_are_never_copied(self):
        net = nn.Linear(512, 512)
        where = net.weight.data_ptr()
        with encore.MemoryScope() as memory:
            y = encore.checkpoint(lambda t: net(t).exp().sin(), leaf(1, 512))
            self.assertLess(memory.peak_growth_bytes, net.weight.numel() * 4)
        y.sum().backward()
        self.assertEqual(net.weight.data_ptr(), where)


class Honest(Case):
    def test_the_profilers_figures_are_the_allocators(self):
        def growth(run):
            x = leaf(MIB)
            before = encore.live_tensor_bytes()
            y = run(x)
            return encore.live_tensor_bytes() - before, y

        plain, _ = growth(chain)
        with encore.CheckpointProfiler() as profiler:
            ours, y = growth(lambda x: encore.checkpoint(chain, x))
        self.assertEqual(profiler.report().memory_saved_bytes, plain - ours)

    def test_another_shape_the_second_time_is_found(self):
        sizes = iter((4, 5))
        options = encore.CheckpointOptions(recompute=encore.Recompute.RERUN)

        def f(t):
            n = next(sizes)
            return (t[:n].exp() * t[:n]).sin().sum()

        y = encore.checkpoint(f, leaf(8), options=options)
        with self.assertRaisesRegex(encore.ReplayError, "aten::"):
            y.backward()

    def test_ctrl_c_leaves_a_step_that_is_running(self):
        budget = encore.MemoryBudget("1GiB")
        net = nn.Sequential(nn.Linear(64, 64), nn.GELU())
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start what runs in the background without it
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            while True:
                with budget.step():
                    net(torch.randn(64, 64)).sum().backward()
        timer.join()
        with budget.step():  # nothing stays switched on
            net(torch.randn(64, 64)).sum().backward()
        self.assertFalse(budget.report().failed)

    def test_an_interrupt_at_any_moment_leaves_nothing_open(self):
        class Interrupt(Exception):
            pass

        def interrupt(*_):
            raise Interrupt

        budget, x = encore.MemoryBudget("1GiB"), leaf(8)
        net = nn.Sequential(nn.Linear(8, 8), nn.GELU())

        def run():
            for _ in range(20):
                with budget.step():
                    with encore.MemoryScope(), encore.CheckpointProfiler(), encore.BlockReuse():
                        net(encore.checkpoint(torch.sin, x)).sum().backward()
                with encore.Scope(encore.drop_all()):
                    y = x.exp().sin().sum()
                y.backward()

        def hooks():
            return len(nn.modules.module._global_forward_hooks) + len(nn.modules.module._global_forward_pre_hooks)

        run()
        hooks_before, interrupted = hooks(), 0
        previous = signal.signal(signal.SIGALRM, interrupt)
        try:
            for at in range(400):
                try:
                    try:
                        signal.setitimer(signal.ITIMER_REAL, 1e-4 + at * 2.3e-5)
                        run()
                    finally:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                except Interrupt:
                    interrupted += 1
                self.assertEqual(hooks(), hooks_before, f"interrupt {at}")
                with budget.step():  # refused if anything were open
                    pass
        finally:
            signal.signal(signal.SIGALRM, previous)
        self.assertGreater(interrupted, 100)  # how many come before its end depends on the machine
        run()
        self.assertEqual((budget.report().failed, encore.BlockReuse.held_bytes()), (False, 0))

    def test_a_function_is_a_policy(self):
        asked = []

        def rule(value):
            asked.append(value.op)
            return encore.Action.RECOMPUTE

        x = leaf(64)
        with encore.Scope(rule) as scope:
            y = x.exp().sin()
        y.sum().backward()
        self.assertEqual((set(asked), scope.stats().values_dropped), ({"aten::exp"}, 1))
        options, before = encore.CheckpointOptions(policy=rule), len(asked)
        encore.checkpoint(lambda t: t.exp().sin(), x, options=options).sum().backward()
        self.assertGreater(len(asked), before)


if __name__ == "__main__":
    unittest.main()
