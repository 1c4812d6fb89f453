"""Serves training steps of the GPT in Python, with torch.utils.checkpoint: the other side of step_server.cpp.

Usage: python_server.py METER_LIBRARY FOLDER [--small] [--encore]

FOLDER is what `bench_steps gpt ... --dump FOLDER` has written: the same weights, batches and seeds, and the gradients of
the plain steps to compare with. Bytes are counted by the same allocator. Lines and answers are those of bench_steps; the
ways are plain, checkpoint, reentrant, and sequential N (checkpoint_sequential with N segments); with --encore also encore
(its checkpoint, a block) and budget BYTES.
"""
import contextlib
import ctypes
import json
import sys
import time
import zlib

import numpy
import torch
import torch.utils.checkpoint

import gpt

config = gpt.Config()
if "--small" in sys.argv:
    config = gpt.Config(layers=2, width=32, heads=2, tokens=16, batch=2, vocabulary=32)
folder = sys.argv[2]
if "--encore" in sys.argv:
    import encore

meter = ctypes.CDLL(sys.argv[1])
for name in ("encore_meter_live", "encore_meter_peak"):
    getattr(meter, name).restype = ctypes.c_int64
meter.encore_meter_install()


model = gpt.Gpt(config)
with open(f"{folder}/weights", "rb") as file, torch.no_grad():
    for parameter in model.parameters():
        parameter.copy_(torch.frombuffer(bytearray(file.read(4 * parameter.numel())), dtype=torch.float32)
                        .view(parameter.shape))
batches = []
for i in range(4):
    ids = torch.from_numpy(numpy.fromfile(f"{folder}/batch{i}", dtype=numpy.int64)).view(2, config.batch, config.tokens)
    batches.append((ids[0].clone(), ids[1].clone()))
seeds = [int(line) for line in open(f"{folder}/seeds")]
adam = torch.optim.Adam(model.parameters(), lr=0.0)


def checkpointed(use_reentrant):
    return gpt.one_by_one(lambda block, x: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=use_reentrant))


budgets = {}


def ways(way, number):
    if way == "encore":
        return gpt.one_by_one(encore.checkpoint)
    return {
        "plain": gpt.one_by_one(lambda block, x: block(x)),
        "budget": gpt.one_by_one(lambda block, x: block(x)),
        "checkpoint": checkpointed(False),
        "reentrant": checkpointed(True),
        "sequential": lambda blocks, x: torch.utils.checkpoint.checkpoint_sequential(blocks, number, x),
    }[way]


def compared(step):
    """With the gradients that the plain step in C++ has left; the hash is for steps of Python's own."""
    plain = numpy.fromfile(f"{folder}/gradients{step}", dtype=numpy.float32)
    ours = numpy.concatenate([parameter.grad.numpy().ravel() for parameter in model.parameters()])
    return {"max_abs_grad_diff": float(numpy.abs(plain - ours).max()), "gradient_hash": zlib.crc32(ours.tobytes())}


for line in sys.stdin:
    words = line.split()
    step, run_blocks = int(words[0]), ways(words[1], int(words[2]) if len(words) > 2 else 0)
    tokens, targets = batches[step % 4]
    live = meter.encore_meter_live()
    meter.encore_meter_reset()
    scope, more = contextlib.nullcontext(), {}
    if words[1] == "budget":
        budget = budgets.setdefault(words[2], None) or encore.MemoryBudget(int(words[2]))
        budgets[words[2]] = budget
        scope = budget.step()
    start, processor_start = time.perf_counter(), time.process_time()
    try:
        with scope:
            adam.zero_grad(set_to_none=False)
            torch.manual_seed(seeds[step])
            loss = model(tokens, targets, run_blocks)
            loss.backward()
            adam.step()
            del loss
    except RuntimeError as error:
        if words[1] != "budget" or not isinstance(error, encore.BudgetError):
            raise
        print(json.dumps({"refused": str(error)}), flush=True)
        continue
    seconds, processor = time.perf_counter() - start, time.process_time() - processor_start
    if words[1] == "budget":
        report = budget.report()
        more = {"mode": report.mode.name.lower(), "predicted_peak_bytes": report.predicted_peak_bytes,
                "ops_replayed": report.ops_replayed, "replay_seconds": report.replay_seconds,
                "planning_seconds": report.planning_seconds}
    print(json.dumps({**more, "seconds": seconds, "processor_seconds": processor, "resting_bytes": live, "peak_bytes": meter.encore_meter_peak(),
                      **compared(step), "threads": torch.get_num_threads()}), flush=True)
