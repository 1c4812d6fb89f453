"""A transformer of torch.nn in half of the memory that it needs, in a plain loop; its report is a web page."""
import os
import tempfile

import torch
from torch import nn

import encore


class Model(nn.Module):
    def __init__(self, vocabulary=64, width=64, layers=4):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)))


torch.manual_seed(1)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
budget = encore.MemoryBudget.fraction(0.5)  # of what the plain step needs above what rests: the first one shows that
for number in range(5):
    tokens = torch.randint(0, 64, (8, 64))
    with budget.step() as step:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        step.set_loss(loss)
    report = budget.report()
    print(f"step {number}: loss {float(loss):.3f}, {report.mode.name.lower()}, {encore.format_bytes(report.peak_bytes)}")
    assert report.limit_bytes < 0 or report.peak_bytes <= report.limit_bytes
with tempfile.TemporaryDirectory() as folder:
    budget.save_report(os.path.join(folder, "run.html"))
assert "encoder.layers.1.self_attn" in {value.module for value in report.values}  # named by the modules that ran
