"""Serves training steps of torchvision's ResNet-50, one for each line read.

Usage: resnet_server.py PIXELS BATCH plain|checkpoint|reentrant|encore|budget [BYTES]
"""
import contextlib
import json
import sys
import time
import zlib

import torch
import torch.utils.checkpoint
import torchvision
from torch import nn

import encore

pixels, batch, way = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.manual_seed(1)
model = torchvision.models.resnet50(num_classes=10)
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
images, labels = torch.randn(batch, 3, pixels, pixels), torch.randint(0, 10, (batch,))
for parameter in model.parameters():  # gradients and the optimizer's state rest
    parameter.grad = torch.zeros_like(parameter)
    optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)

checkpoints = {
    "checkpoint": lambda f, x: torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False),
    "reentrant": lambda f, x: torch.utils.checkpoint.checkpoint(f, x, use_reentrant=True),
    "encore": encore.checkpoint,
}
if way in checkpoints:
    for stage in (model.layer1, model.layer2, model.layer3, model.layer4):
        stage.forward = lambda x, forward=stage.forward: checkpoints[way](forward, x)
budget = encore.MemoryBudget(int(sys.argv[4])) if way == "budget" else None


def digest():
    value = 0
    for parameter in model.parameters():
        value = zlib.crc32(parameter.grad.numpy().tobytes(), value)
    return value


for _ in sys.stdin:
    resting = encore.live_tensor_bytes()
    encore.reset_peak_tensor_bytes()
    start = time.process_time()
    try:
        with budget.step() if budget else contextlib.nullcontext():
            optimizer.zero_grad(set_to_none=False)
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
    except encore.BudgetError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        continue
    answer = {"seconds": time.process_time() - start, "resting_bytes": resting, "peak_bytes": encore.peak_tensor_bytes(),
              "hash": digest()}
    if budget:
        answer["mode"] = budget.report().mode.name.lower()
    print(json.dumps(answer), flush=True)
