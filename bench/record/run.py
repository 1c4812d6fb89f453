"""What recording costs: nanoseconds of processor time for each op above LibTorch's own, for ops on one element.

Usage: run.py BUILD_DIR [--rounds N]

Each way of running the chain is a process of its own; all of them run in turn, and the best of each counts.
"""
import argparse
import os
import subprocess

parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("--rounds", type=int, default=5)
options = parser.parse_args()

WAYS = [("plain", "LibTorch alone", "plain"), ("observed", "an observer that does nothing", "plain"),
        ("floor", "the same, and hooks that hold what is saved", "plain"), ("idle", "Encore linked, nothing open any more", "plain"),
        ("keep_all", "Scope(keep_all())", "plain"), ("checkpoint", "checkpoint", "plain"),
        ("online", "budget that fits, a first step", "plain"), ("planned", "budget that fits, planned", "plain"),
        ("nograd_plain", "no_grad: LibTorch alone", "nograd_plain"), ("nograd", "no_grad: Encore idle", "nograd_plain"),
        ("nograd_keep_all", "no_grad: Scope(keep_all())", "nograd_plain")]

best = {}
for _ in range(options.rounds):
    for way, _, _ in WAYS:
        program = "bench_record_plain" if way.endswith(("plain", "observed", "floor")) else "bench_record"
        run = subprocess.run([os.path.join(options.build, "bench", program), way], check=True, capture_output=True,
                             text=True)
        figures = [float(word) for word in run.stdout.split()]
        best[way] = [min(pair) for pair in zip(best.get(way, figures), figures)]

print("| ns an op | forward | above plain | backward | above plain | step | above plain |\n|---|---|---|---|---|---|---|")
for way, name, base in WAYS:
    cells = [f"{ns:.0f} | {ns - plain:+.0f}" for ns, plain in zip(best[way], best[base])]
    print(f"| {name} | {' | '.join(cells)} |")
