"""One way of running a long chain of ops on one element each, in Python: the other side of bench_record.

Usage: record.py plain|idle|keep_all|checkpoint|planned|nograd_plain|nograd [STEPS]

Prints nanoseconds of processor time for each op: of the best step's forward, of the best step's backward, and of the best
whole step, as bench_record does. `plain` and `nograd_plain` do not import encore. A product saves two tensors.
"""
import contextlib
import sys
import time

import torch

OPS = 4000
way = sys.argv[1]
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 12
torch.set_num_threads(1)
weight = torch.ones(1, requires_grad=True)


def chain(x):
    for _ in range(OPS):
        x = x * weight
    return x


if way.endswith("plain"):
    forward, scope = chain, contextlib.nullcontext
else:
    import encore

    with encore.Scope():  # takes the engine slot
        pass
    budget = encore.MemoryBudget("1GiB")
    forward = encore.checkpoint(chain) if way == "checkpoint" else chain
    scope = {"keep_all": encore.Scope, "planned": budget.step}.get(way, contextlib.nullcontext)

best = [float("inf")] * 3
torch.set_grad_enabled(not way.startswith("nograd"))
for number in range(steps):
    x = torch.ones(1)
    with scope():
        start = time.process_time_ns()
        loss = forward(x)
        middle = time.process_time_ns()
        if loss.requires_grad:
            loss.backward()
        end = time.process_time_ns()
    del loss
    if way != "planned" or number > 4:
        best = [min(pair) for pair in zip(best, (middle - start, end - middle, end - start))]
print(*(ns / OPS for ns in best))
