"""Steps on 1, 2 and 4 ranks: reduced inside backward, after it, not at all; and Python's DistributedDataParallel.

Usage: run.py BUILD_DIR [--quick]

On the loopback, and, for root where `ip` and `tc` are, between network namespaces of 1 Gbit and 100 Mbit a second. The
model at the end says what a step takes on more ranks.
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import model

PROGRAM = pathlib.Path(sys.argv[1], "bench/bench_dist").resolve()
PYTHON = ["/usr/bin/python3", str(pathlib.Path(__file__).resolve().parent / "python_rank.py")]
QUICK = "--quick" in sys.argv
ROUNDS = 3 if QUICK else 9
BRIDGE = "encorebr"


def run(ranks, bucket_kib, network=None):
    """What rank 0 printed, of both sides in turn, the least of two; `network`: tc's rate between the ranks."""
    results = [run_once(program, ranks, bucket_kib, network) for _ in range(1 if QUICK else 2)
               for program in ([str(PROGRAM)], PYTHON)]
    best = {}
    for result in results:
        best.update({key: min(value, best.get(key, value)) for key, value in result.items()})
    return best


def run_once(program, ranks, bucket_kib, network):
    address, port = ("10.77.0.1" if network else "127.0.0.1"), "29555"
    if not network:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
    processes = []
    for rank in range(ranks):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR=address, MASTER_PORT=port,
                           OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", GLOG_minloglevel="3")
        command = [*program, str(ROUNDS), "4", str(bucket_kib)]
        if network:
            command = ["ip", "netns", "exec", f"encore{rank}", *command]
            environment["GLOO_SOCKET_IFNAME"] = f"encv{rank}"
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          text=True))
    try:
        texts, errors = zip(*(process.communicate(timeout=900) for process in processes))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
    if not texts[0]:
        sys.exit(f"{program[-1]} on {ranks} ranks printed nothing: {errors[0][-2000:]}")
    return json.loads(texts[0])


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Network:
    """Namespaces on one bridge, each behind a limited link."""

    def __init__(self, ranks, rate):
        self.ranks, self.rate = ranks, rate

    def __enter__(self):
        self.__exit__()
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("link", "set", BRIDGE, "up")
        for rank in range(self.ranks):
            ip("netns", "add", f"encore{rank}")
            ip("link", "add", f"encv{rank}", "type", "veth", "peer", "name", f"encp{rank}")
            ip("link", "set", f"encp{rank}", "master", BRIDGE, "up")
            ip("link", "set", f"encv{rank}", "netns", f"encore{rank}")
            inside = ("-n", f"encore{rank}")
            ip(*inside, "addr", "add", f"10.77.0.{rank + 1}/24", "dev", f"encv{rank}")
            ip(*inside, "link", "set", f"encv{rank}", "up")
            ip(*inside, "link", "set", "lo", "up")
            subprocess.run(["ip", "netns", "exec", f"encore{rank}", "tc", "qdisc", "add", "dev", f"encv{rank}", "root", "tbf",
                            "rate", self.rate, "burst", "256kb", "latency", "50ms"], check=True)
        return self

    def __exit__(self, *_):
        for rank in range(8):
            subprocess.run(["ip", "netns", "del", f"encore{rank}"], capture_output=True)
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True)


def row(where, result, rate=None):
    """`rate`: bytes a second, for what the formula says; backward is two thirds of what a rank does alone."""
    ms = {way: result[way] * 1e3 for way in ("none", "inside", "after", "inside_checkpoint", "ddp", "ddp_checkpoint")}
    foreseen = "-"
    if rate:
        backward = result["none"] * 2 / 3
        size = result["gradient_bytes"]
        whole = model.step_seconds(size, size / result["buckets"], result["ranks"], backward, rate, 1e-4)
        foreseen = f"{(result['none'] - backward + whole) * 1e3:.0f}"
    cells = [ms["none"], ms["inside"], foreseen, ms["after"], ms["inside_checkpoint"], ms["ddp"], ms["ddp_checkpoint"]]
    print(f"| {where} | {result['ranks']} | " +
          " | ".join(cell if isinstance(cell, str) else f"{cell:.0f}" for cell in cells) + " |", flush=True)


def main():
    print(f"GPT of 4 layers, width 256, 128 tokens a rank; medians of {ROUNDS}, the lower of two, ms a forward and "
          f"backward; "
          f"{os.cpu_count()} cores for all ranks, so more ranks than cores take turns")
    print("| network | ranks | not reduced | inside backward | by the formula | after it | a checkpoint a block, inside | "
          "Python's DDP | DDP, a checkpoint a block |\n|---|---|---|---|---|---|---|---|---|")
    for ranks in (1, 2, 4):
        row("loopback", run(ranks, 1024))
    if os.geteuid() == 0 and shutil.which("tc") and shutil.which("ip"):
        for rate, speed in (("1gbit", 125e6), ("100mbit", 12.5e6)):
            for ranks in ((2,) if QUICK else (2, 4)):
                with Network(ranks, rate):
                    row(rate, run(ranks, 1024, rate), speed)
    else:
        print("  limited networks: need root, ip and tc")


if __name__ == "__main__":
    main()
