"""GPT with one checkpoint a block: Encore next to Python's torch.utils.checkpoint, in one interleaved run.

Usage: run.py BUILD_DIR [--rounds N] [--small] [--json FILE]

Both sides train the same model (bench/gpt/gpt_bench.cpp, and below), with the same LibTorch, threads and BLAS kernels;
peaks of both are counted by the same allocator, above what rests (parameters and their gradients).
"""
import argparse
import ctypes
import json
import math
import os
import statistics
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--small", action="store_true")
parser.add_argument("--json")
options = parser.parse_args()

# An idle process must not spin on the cores of the one that is measured.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch  # noqa: E402
import torch.utils.checkpoint  # noqa: E402
from torch import nn  # noqa: E402

LAYERS, WIDTH, HEADS, TOKENS, BATCH, VOCABULARY, DROPOUT = 8, 384, 6, 256, 8, 96, 0.1
if options.small:
    LAYERS, BATCH = 2, 2

meter = ctypes.CDLL(os.path.join(options.build, "bench", "libbench_meter.so"))
for name in ("encore_meter_live", "encore_meter_peak"):
    getattr(meter, name).restype = ctypes.c_int64
meter.encore_meter_install()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.project = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
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

    def forward(self, tokens, targets, run_block):
        x = torch.dropout(self.token(tokens) + self.position(torch.arange(TOKENS)), DROPOUT, True)
        for block in self.blocks:
            x = run_block(block, x)
        return nn.functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


torch.manual_seed(11)
model = Gpt()
for parameter in model.parameters():
    parameter.grad = torch.zeros_like(parameter)
ids = torch.randint(VOCABULARY, (BATCH, TOKENS + 1), generator=torch.Generator().manual_seed(5))
tokens, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def checkpointed(use_reentrant):
    return lambda block, x: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=use_reentrant)


PYTHON = {
    "python plain": lambda block, x: block(x),
    "python checkpoint": checkpointed(False),
    "python checkpoint, reentrant": checkpointed(True),
}
ENCORE = {
    "plain": "plain",
    "Scope(keep_all())": "keep_all",
    "Encore, a checkpoint a block": "per_block",
    "Encore, keep_matmuls()": "keep_matmuls",
    "Encore, kRerun": "rerun",
}


def python_step(run_block):
    for parameter in model.parameters():
        parameter.grad.zero_()
    torch.manual_seed(3)
    live = meter.encore_meter_live()
    meter.encore_meter_reset()
    start = time.perf_counter()
    model(tokens, targets, run_block).backward()
    return {"seconds": time.perf_counter() - start, "peak_bytes": meter.encore_meter_peak() - live}


server = subprocess.Popen(
    [os.path.join(options.build, "bench", "bench_gpt")] + (["--small"] if options.small else []),
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def encore_step(system):
    server.stdin.write(system + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


runs = {name: [] for name in [*ENCORE, *PYTHON]}
for round_number in range(options.rounds + 1):
    for name, system in ENCORE.items():
        runs[name].append(encore_step(system))
    for name, run_block in PYTHON.items():
        runs[name].append(python_step(run_block))
    print(f"round {round_number} of {options.rounds}", file=sys.stderr)
server.stdin.close()

plain_hash = runs["plain"][0]["hash"]
results = []
for name, steps in runs.items():
    seconds = [step["seconds"] for step in steps[1:]]  # the first round warms up
    base = [step["seconds"] for step in runs["python plain" if name in PYTHON else "plain"][1:]]
    results.append({
        "system": name,
        "peak_bytes": max(step["peak_bytes"] for step in steps),
        "median": statistics.median(seconds),
        "minimum": min(seconds),
        "extra_median": statistics.median(seconds) / statistics.median(base) - 1,
        "extra_minimum": min(seconds) / min(base) - 1,
        "same_bits": all(step["hash"] == plain_hash for step in steps) if name in ENCORE else None,
    })

print(f"GPT, {LAYERS} layers, width {WIDTH}, {TOKENS} tokens, batch {BATCH}, dropout {DROPOUT}; "
      f"LibTorch {torch.__version__}, {torch.get_num_threads()} threads, "
      f"OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', 'not set')}; {options.rounds} interleaved rounds")
print(f"{'':32} {'peak MB':>9} {'median s':>9} {'extra':>7} {'min s':>7} {'extra':>7}  same bits as plain")
for row in results:
    same = {True: "all", False: "NO", None: ""}[row["same_bits"]]
    print(f"{row['system']:32} {row['peak_bytes'] / 1e6:9.1f} {row['median']:9.3f} {row['extra_median']:7.1%} "
          f"{row['minimum']:7.3f} {row['extra_minimum']:7.1%}  {same}")
by_name = {row["system"]: row for row in results}
ours = by_name["Encore, a checkpoint a block"]
theirs = min((by_name[name] for name in PYTHON if name != "python plain"), key=lambda row: row["median"])
for kind in ("median", "minimum"):
    print(f"Encore's extra time is {ours['extra_' + kind] / theirs['extra_' + kind]:.2f} x that of Python's faster kind "
          f"({kind}), its peak {ours['peak_bytes'] / theirs['peak_bytes']:.3f} x")
if options.json:
    with open(options.json, "w") as file:
        json.dump(results, file, indent=1)
if any(row["same_bits"] is False for row in results):
    sys.exit("a gradient differs from the plain run")
