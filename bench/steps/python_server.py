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
import math
import sys
import time
import zlib

import numpy
import torch
import torch.utils.checkpoint
from torch import nn

LAYERS, WIDTH, HEADS, TOKENS, BATCH, VOCABULARY, DROPOUT = 8, 384, 6, 256, 8, 96, 0.1
if "--small" in sys.argv:
    LAYERS, WIDTH, HEADS, TOKENS, BATCH, VOCABULARY = 2, 32, 2, 16, 2, 32
folder = sys.argv[2]
if "--encore" in sys.argv:
    import encore

meter = ctypes.CDLL(sys.argv[1])
for name in ("encore_meter_live", "encore_meter_peak"):
    getattr(meter, name).restype = ctypes.c_int64
meter.encore_meter_install()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.project = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm2 = nn.LayerNorm(WIDTH)
        self.expand, self.contract = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("mask", torch.ones(TOKENS, TOKENS).triu(1).bool())

    def forward(self, x):
        def split(t):
            return t.view(BATCH, TOKENS, HEADS, WIDTH // HEADS).transpose(1, 2)

        h = self.norm1(x)
        q, k, v = split(self.query(h)), split(self.key(h)), split(self.value(h))
        scores = q.matmul(k.transpose(-2, -1)) / math.sqrt(WIDTH // HEADS)
        scores = scores.masked_fill(self.mask, -1e9).softmax(-1)
        scores = torch.dropout(scores, DROPOUT, True)
        mixed = scores.matmul(v).transpose(1, 2).contiguous().view(BATCH, TOKENS, WIDTH)
        y = x + torch.dropout(self.project(mixed), DROPOUT, True)
        return y + torch.dropout(self.contract(nn.functional.gelu(self.expand(self.norm2(y)))), DROPOUT, True)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, targets, run_blocks):
        x = torch.dropout(self.token(tokens) + self.position(torch.arange(TOKENS)), DROPOUT, True)
        x = run_blocks(self.blocks, x)
        return nn.functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


model = Gpt()
with open(f"{folder}/weights", "rb") as file, torch.no_grad():
    for parameter in model.parameters():
        parameter.copy_(torch.frombuffer(bytearray(file.read(4 * parameter.numel())), dtype=torch.float32)
                        .view(parameter.shape))
batches = []
for i in range(4):
    ids = torch.from_numpy(numpy.fromfile(f"{folder}/batch{i}", dtype=numpy.int64)).view(2, BATCH, TOKENS)
    batches.append((ids[0].clone(), ids[1].clone()))
seeds = [int(line) for line in open(f"{folder}/seeds")]
adam = torch.optim.Adam(model.parameters(), lr=0.0)


def one_by_one(run):
    def run_blocks(blocks, x):
        for block in blocks:
            x = run(block, x)
        return x
    return run_blocks


def checkpointed(use_reentrant):
    return one_by_one(lambda block, x: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=use_reentrant))


budgets = {}


def ways(way, number):
    if way == "encore":
        return one_by_one(encore.checkpoint)
    return {
        "plain": one_by_one(lambda block, x: block(x)),
        "budget": one_by_one(lambda block, x: block(x)),
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
