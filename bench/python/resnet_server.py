"""Serves training steps of torchvision's ResNet-50, at the size of bench_steps' own: the Python side of `bench_steps resnet`.

Usage: resnet_server.py [--small]

A line on standard input names the step's number and a way of running it: plain, checkpoint, reentrant, encore (each a
checkpoint a stage), budget BYTES. Answers each with one line of JSON, as bench_steps does. A step is forward, backward and
Adam with a learning rate of 0, so that every way of running step 3 must give the same bits.
"""
import contextlib
import json
import sys
import time
import zlib

import torch
import torch.utils.checkpoint
import torchvision

import encore

PIXELS, BATCH, CLASSES = (48, 2, 10) if "--small" in sys.argv else (160, 8, 1000)
torch.manual_seed(1)
model = torchvision.models.resnet50(num_classes=CLASSES)
adam = torch.optim.Adam(model.parameters(), lr=0.0)
STAGES = [model.layer1, model.layer2, model.layer3, model.layer4]
PLAIN = [stage.forward for stage in STAGES]
CHECKPOINTS = {
    "checkpoint": lambda f, x: torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False),
    "reentrant": lambda f, x: torch.utils.checkpoint.checkpoint(f, x, use_reentrant=True),
    "encore": encore.checkpoint,
}
budgets = {}


def batch_of(step):
    generator = torch.Generator().manual_seed(100 + step)
    return (torch.randn(BATCH, 3, PIXELS, PIXELS, generator=generator),
            torch.randint(0, CLASSES, (BATCH,), generator=generator))


def train(images, labels):
    adam.zero_grad(set_to_none=False)
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    adam.step()


def digest():
    value = 0
    for parameter in model.parameters():
        value = zlib.crc32(parameter.grad.numpy().tobytes(), value)
    return value


for line in sys.stdin:
    step, way, *limit = line.split()
    for stage, forward in zip(STAGES, PLAIN):
        checkpoint = CHECKPOINTS.get(way)
        stage.forward = (lambda x, f=forward, c=checkpoint: c(f, x)) if checkpoint else forward
    scope = contextlib.nullcontext()
    if way == "budget":
        budget = budgets.setdefault(limit[0], None) or encore.MemoryBudget(int(limit[0]))
        budgets[limit[0]] = budget
        scope = budget.step()
    images, labels = batch_of(int(step) % 4)
    resting = encore.live_tensor_bytes()
    encore.reset_peak_tensor_bytes()
    start = time.process_time()
    try:
        with scope:
            train(images, labels)
    except encore.BudgetError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        continue
    answer = {"processor_seconds": time.process_time() - start, "resting_bytes": resting,
              "peak_bytes": encore.peak_tensor_bytes(), "hash": digest()}
    if way == "budget":
        answer["mode"] = budget.report().mode.name.lower()
    print(json.dumps(answer), flush=True)
