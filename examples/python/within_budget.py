"""A training loop within a budget: five lines of it are Encore's."""
import torch
from torch import nn

import encore

torch.manual_seed(1)
model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(4)])
optimizer = torch.optim.Adam(model.parameters())
loader = [torch.randn(1024, 256) for _ in range(6)]

# [within_budget]
budget = encore.MemoryBudget("60MiB")  # of all tensors: parameters, gradients, optimizer, activations
for x in loader:
    with budget.step():  # in here the budget is kept
        optimizer.zero_grad()
        model(x).square().mean().backward()  # the same gradients, bit for bit
        optimizer.step()
# [within_budget]

report = budget.report()
print(report)
assert report.peak_bytes <= budget.limit_bytes
