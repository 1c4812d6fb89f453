"""A callback of ten lines for loops that others have written."""
import torch
from torch import nn

import encore


# [callback]
class Budget:
    """For loops that call on_step_begin and on_step_end around each step."""

    def __init__(self, limit):
        self.budget = encore.MemoryBudget(limit)

    def on_step_begin(self):
        self.step = self.budget.step()
        self.step.__enter__()

    def on_step_end(self):
        self.step.__exit__(None, None, None)
# [callback]


def somebody_elses_loop(model, batches, callback):
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for x in batches:
        callback.on_step_begin()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        callback.on_step_end()


callback = Budget("7MiB")
net = nn.Sequential(*[nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)) for _ in range(3)])
somebody_elses_loop(net, [torch.randn(256, 128) for _ in range(5)], callback)
print(callback.budget.report())
assert callback.budget.report().peak_bytes <= 7 << 20
