"""Threads, the GIL, forks and data loaders."""
import os
import subprocess
import sys
import threading
import unittest

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import encore
from support import Case, leaf, parameters, plain


def in_threads(*functions):
    results, errors = [None] * len(functions), []

    def run(i):
        try:
            results[i] = functions[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


class Threads(Case):
    def test_each_thread_has_its_own_scopes(self):
        inputs = [torch.randn(16, 16) for _ in range(4)]

        def work(checkpoint, data):
            x = data.clone().requires_grad_()
            for _ in range(5):
                checkpoint(lambda t: (t @ t).tanh().exp().sin(), x).sum().backward()
            return x.grad

        expected = [work(plain, data) for data in inputs]
        got = in_threads(*[lambda data=data: work(encore.checkpoint, data) for data in inputs])
        self.check_same(got, expected)

    def test_backward_on_another_thread(self):
        x = leaf(16)
        y = encore.checkpoint(lambda t: t.exp().sin(), x).sum()
        with encore.Scope(encore.drop_all()):
            z = x.exp().sin().sum()
            in_threads(y.backward, z.backward)
        expected = 2 * torch.cos(x.detach().exp()) * x.detach().exp()
        self.check_same([x.grad], [expected])

    def test_a_module_shared_by_threads(self):
        net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
        inputs = [torch.randn(4, 8) for _ in range(3)]

        def work(checkpoint, data):
            return torch.autograd.grad(checkpoint(net, data).sum(), list(net.parameters()))

        expected = [g for data in inputs for g in work(plain, data)]
        got = in_threads(*[lambda data=data: work(encore.checkpoint, data) for data in inputs])
        self.check_same([g for grads in got for g in grads], expected)

    def test_a_scope_ended_on_another_thread_says_so(self):
        scope = encore.Scope()
        scope.__enter__()

        def end():
            with self.assertRaises(encore.ScopeError):
                scope.__exit__(None, None, None)

        in_threads(end)
        scope.__exit__(None, None, None)


# One thread replays a kernel that is written in Python, under the tape's lock, and wants the GIL; another has the GIL,
# in save_for_backward or in x[0], and wants the lock. In a process of its own, which is given up when it hangs.
DEADLOCK = """
import threading, time, torch, encore

library = torch.library.Library("encore_deadlock", "DEF")
library.define("slow(Tensor x) -> Tensor")
inside = threading.Event()
replays = []

def slow(x):
    if replays:                         # replayed, under the tape's lock
        inside.set()
        time.sleep(0.1)                 # without the GIL, and wants it back
    return x * 2

library.impl("slow", slow, "CPU")

class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.ops.encore_deadlock.slow(x)
        ctx.save_for_backward(y)
        return y * 1
    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors        # with the GIL
        return grad * 2 + 0 * y

class Save(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, result):
        ctx.save_for_backward(x)        # with the GIL, and no op before it
        return result
    @staticmethod
    def backward(ctx, grad):
        return grad * torch.ones_like(ctx.saved_tensors[0]), None

x = torch.randn(64, requires_grad=True)
for way in ("save", "index"):
    replays.clear(); inside.clear()
    result = torch.zeros(())
    with encore.Scope(encore.drop_all()) as scope:
        y = Slow.apply(x.exp()).sum()
        replays.append(1)
        thread = threading.Thread(target=y.backward)
        thread.start()
        inside.wait()                   # the tape's lock is the other thread's
        z = Save.apply(x, result) if way == "save" else x[0]
    thread.join()
    z.backward()
    print(way)
print("through")
"""


class Gil(Case):
    def test_nobody_waits_for_the_tapes_lock_with_the_gil(self):
        done = subprocess.run([sys.executable, "-c", DEADLOCK], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.stdout.split(), done.returncode), (["save", "index", "through"], 0), done.stderr)


class Forks(Case):
    def test_a_child_of_a_process_with_an_open_step_is_not_recorded_and_has_no_limit(self):
        x = leaf(1024)
        budget = encore.MemoryBudget(encore.live_tensor_bytes() + (1 << 20))
        with budget.step():
            x.exp().sum().backward()
            child = os.fork()
            if child == 0:
                try:
                    big = torch.ones(1 << 20, requires_grad=True)  # 4 MiB
                    (big * 2).sum().backward()
                    os._exit(0 if big.grad[0] == 2 else 1)
                except BaseException as error:
                    # LibTorch 2 itself runs no backward in the child of a process that ran one; forward is seen here.
                    os._exit(0 if "Autograd-and-Fork" in str(error) else 2)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            x.exp().sum().backward()
        self.assertFalse(budget.report().failed)

    def test_data_loader_with_workers(self):
        data = TensorDataset(torch.randn(32, 8), torch.randn(32, 8))

        def train(step):
            torch.manual_seed(3)
            net = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Dropout(0.2), nn.Linear(64, 8))
            optimizer = torch.optim.Adam(net.parameters(), 1e-2)
            for _ in range(2):
                for x, y in DataLoader(data, batch_size=8, shuffle=True, num_workers=2):
                    with step():
                        optimizer.zero_grad()
                        (net(x) - y).square().mean().backward()
                        optimizer.step()
            return [p.detach() for p in net.parameters()]

        import contextlib

        expected = train(contextlib.nullcontext)
        budget = encore.MemoryBudget.fraction(0.9)
        self.check_same(train(budget.step), expected)
        self.assertFalse(budget.report().failed)


if __name__ == "__main__":
    unittest.main()
