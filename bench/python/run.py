"""What the Python module costs for each op next to the C++ host, and a network of torchvision's within budgets.

Usage: run.py BUILD_DIR [--rounds N] [--image PIXELS] [--batch N] [--no-overhead]

The chain of ops is bench_record's, in both languages, each way in a process of its own, all in turn; the best of each
counts. The ResNet-50's steps run in turn too, one process a way; seconds are of the processor, peaks at the allocator.
"""
import argparse
import json
import os
import statistics
import subprocess

parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("--rounds", type=int, default=4)
parser.add_argument("--image", type=int, default=96)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--no-overhead", action="store_true", help="the ResNet alone")
options = parser.parse_args()

os.environ.update(PYTHONPATH=os.path.join(options.build, "python"), OMP_WAIT_POLICY="passive")
HERE = os.path.dirname(os.path.abspath(__file__))
WAYS = [("idle", "imported, nothing open"), ("keep_all", "Scope(keep_all())"), ("checkpoint", "checkpoint"),
        ("planned", "budget that fits, planned")]


def chain(side, way):
    if side == "Python":
        command = ["/usr/bin/python3", os.path.join(HERE, "record.py"), way]
    else:
        command = [os.path.join(options.build, "bench", "bench_record_plain" if way == "plain" else "bench_record"), way]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(word) for word in run.stdout.split()]


def print_overhead():
    best = {}
    for _ in range(options.rounds):
        for way in ["plain"] + [way for way, _ in WAYS]:
            for side in ("C++", "Python"):
                figures = chain(side, way)
                best[side, way] = [min(pair) for pair in zip(best.get((side, way), figures), figures)]
    print("| ns an op above plain | C++ forward | Python | difference | C++ backward | Python | difference |\n|---|---|---|---|---|---|---|")
    for way, name in WAYS:
        cells = []
        for part in (0, 1):
            above = [best[side, way][part] - best[side, "plain"][part] for side in ("C++", "Python")]
            cells += [f"{above[0]:+.0f}", f"{above[1]:+.0f}", f"{above[1] - above[0]:+.0f}"]
        print(f"| {name} | {' | '.join(cells)} |")


class Server:
    def __init__(self, *way):
        self.process = subprocess.Popen(
            ["/usr/bin/python3", os.path.join(HERE, "resnet_server.py"), str(options.image), str(options.batch), *way],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.steps = []

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.steps.append(json.loads(self.process.stdout.readline()))
        return self.steps[-1]


def print_resnet():
    plain = Server("plain")
    for _ in range(2):
        plain.step()
    activations = plain.steps[-1]["peak_bytes"] - plain.steps[-1]["resting_bytes"]
    resting = plain.steps[-1]["resting_bytes"]
    servers = {"plain": plain, "torch.utils.checkpoint, a stage": Server("checkpoint"),
               "the same, reentrant": Server("reentrant"), "encore.checkpoint, a stage": Server("encore")}
    limits = {}
    for part in (1.0, 0.5, 0.3):
        limits[f"encore, {part:.0%} budget"] = resting + int(part * activations)
    servers.update({name: Server("budget", str(limit)) for name, limit in limits.items()})
    for _ in range(4 + options.rounds):
        for server in servers.values():
            if "refused" not in (server.steps or [{}])[-1]:
                server.step()
    print(f"\nResNet-50 of torchvision, batch {options.batch}, {options.image} pixels, SGD\n\n"
          "| | peak above rest MB | processor s | extra | gradients | mode |\n|---|---|---|---|---|---|")
    failed = False
    for name, server in servers.items():
        last = server.steps[-1]
        if "refused" in last:
            print(f"| {name} | refused: {last['refused'][:100]} | | | | |")
            continue
        seconds = statistics.median(step["seconds"] for step in server.steps[-options.rounds:])
        base = statistics.median(step["seconds"] for step in plain.steps[-options.rounds:])
        peak = max(step["peak_bytes"] for step in server.steps[-options.rounds:])
        same = [step["hash"] for step in server.steps[:4]] == [step["hash"] for step in plain.steps[:4]]
        failed |= name.startswith("encore") and not same or peak > limits.get(name, peak)
        print(f"| {name} | {(peak - last['resting_bytes']) / 1e6:.1f} | {seconds:.2f} | {seconds / base - 1:+.1%} | "
              f"{'same bits' if same else 'differ'} | {last.get('mode', '')} |")
    for server in servers.values():
        server.process.stdin.close()
        server.process.wait()
    if failed:
        raise SystemExit("a gradient differs from the plain run, or a budget was not kept")


if not options.no_overhead:
    print_overhead()
print_resnet()
