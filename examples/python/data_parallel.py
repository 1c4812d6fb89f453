"""DistributedDataParallel on two ranks, each within a budget: the plain run's weights, bit for bit, on both."""
import contextlib
import os
import tempfile

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn

import encore


def train(rank, step):
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True)
    model = nn.parallel.DistributedDataParallel(nn.TransformerEncoder(layer, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    torch.manual_seed(2 + rank)
    for _ in range(4):
        x = torch.randn(8, 32, 64)
        with step():
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def main(rank, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    plain = train(rank, contextlib.nullcontext)
    budget = encore.MemoryBudget.fraction(0.6)
    ours = train(rank, budget.step)
    report = budget.report()
    print(f"rank {rank}: {report.mode.name.lower()}, {encore.format_bytes(report.peak_bytes)} of "
          f"{encore.format_bytes(report.limit_bytes)}")
    assert all(torch.equal(a, b) for a, b in zip(plain, ours))
    assert report.peak_bytes <= report.limit_bytes
    for parameter in ours:  # the other rank's are the same
        other = parameter.clone()
        torch.distributed.broadcast(other, 0)
        assert torch.equal(other, parameter)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(main, (folder,), nprocs=2)
