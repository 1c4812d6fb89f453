"""One rank of the benchmark in Python: DistributedDataParallel, plainly and with torch.utils.checkpoint a block, in turn.

Usage: python_rank.py ROUNDS LAYERS BUCKET_KIB; the same model, sizes and figures as bench_dist. Prints for rank 0 one line of
JSON.
"""
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed
import torch.utils.checkpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "steps"))
import gpt  # noqa: E402

rounds, layers, bucket_kib = (int(word) for word in sys.argv[1:4])
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
config = gpt.Config(layers=layers, width=256, heads=4, tokens=64, batch=2)
torch.manual_seed(1)
net = gpt.Gpt(config)
for block in net.blocks:  # Gloo broadcasts no booleans
    block.mask = block._buffers.pop("mask")
model = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=bucket_kib / 1024)
WAYS = {
    "ddp": gpt.one_by_one(lambda block, x: block(x)),
    "ddp_checkpoint": gpt.one_by_one(
        lambda block, x: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)),
}
times = {way: [] for way in WAYS}
for number in range(rounds + 2):
    for way, run_blocks in WAYS.items():
        ids = torch.randint(config.vocabulary, (2, config.batch, config.tokens))
        model.zero_grad(set_to_none=False)
        start = time.perf_counter()
        model(ids[0], ids[1], run_blocks).backward()
        if number >= 2:
            times[way].append(time.perf_counter() - start)
if os.environ["RANK"] == "0":
    print(json.dumps({way: sorted(list)[len(list) // 2] for way, list in times.items()}))
