"""Steps that change: every changing workload, plainly and within parts of each step's own plain peak.

Usage: changing.py BUILD_DIR [--workloads lengths,trees,...] [--steps N] [--fractions 1,0.8,...] [--fixed] [--small]
                   [--json FILE]

Processor time over plain of the same steps: of the first step, of those after the tenth (the sum over the sum), of the
worst of those. All ways run in processes of their own, one step at a time in turn. With --fixed one limit holds for all
steps: that part of the largest plain peak.
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from server import Server  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("--workloads",
                    default="lengths,packed,lstm_lengths,gru_lengths,trees,graphs,images,gan,sizes,one_other")
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--fractions", default="1,0.8,0.6,0.5,0.4,0.3")
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--small", action="store_true")
parser.add_argument("--json")
options = parser.parse_args()

FRACTIONS = [float(part) for part in options.fractions.split(",")]
WARM_UP = 10
os.environ["OMP_WAIT_POLICY"] = "passive"  # an idle process must not spin on the cores of the one that is measured


def serve(workload):
    return Server(os.path.join(options.build, "bench", "bench_steps"), workload, "small" if options.small else "real")


def run(workload):
    plain = serve(workload)
    plain.step(0, "plain")  # from here on gradients and the optimizer's state rest
    plain.step(1, "plain")
    most = 0
    if options.fixed:
        most = max(step["peak_bytes"] - step["resting_bytes"]
                   for step in (plain.step(number, "plain") for number in range(options.steps)))
    servers = {part: serve(workload) for part in FRACTIONS}
    for server in servers.values():
        server.step(0, "plain")
        server.step(1, "plain")
    rows = {part: [] for part in FRACTIONS}
    for number in range(options.steps):
        base = plain.step(number, "plain")
        for part, server in servers.items():
            need = most if options.fixed else base["peak_bytes"] - base["resting_bytes"]
            limit = base["resting_bytes"] + int(part * need)
            answer = server.step(number, f"within {limit}")
            answer["limit_bytes"] = limit
            answer["plain_processor_seconds"] = base["processor_seconds"]
            if "refused" in answer:
                server.step(number, "plain")  # clears what the refused backward left in LibTorch's queue
            else:
                if answer["hash"] != base["hash"]:
                    sys.exit(f"{workload} at {part:.0%}: the gradients of step {number} differ from the plain ones")
                if answer["peak_bytes"] > limit:
                    sys.exit(f"{workload} at {part:.0%}: step {number} passed its limit")
            rows[part].append(answer)
    for server in [plain, *servers.values()]:
        server.close()
    return rows


def ratio(steps):
    steps = [step for step in steps if "refused" not in step]
    own, plain = (sum(step[key] for step in steps) for key in ("processor_seconds", "plain_processor_seconds"))
    return own / plain if plain > 0 else float("nan")


results = {}
print(f"{'':14}{'of the peak':>12}{'first':>7}{'after 10':>9}{'worst':>7}{'refused':>8}{'planned':>8}"
      f"{'kinds':>6}{'known':>6}{'learning':>9}")
for name in options.workloads.split(","):
    rows = run(name)
    results[name] = {str(part): steps for part, steps in rows.items()}
    for part, steps in rows.items():
        after = [step for step in steps[WARM_UP:] if "refused" not in step]
        worst = max((ratio([step]) for step in after), default=float("nan"))
        refused = sum("refused" in step for step in steps)
        planned = sum(step.get("mode") == "planned" for step in after)
        last = next((step for step in reversed(steps) if "refused" not in step), None)
        share = last["learning_seconds"] / max(1e-9, last["training_seconds"]) if last else 0
        print(f"{name:14}{part:12.0%}{ratio(steps[:1]):7.2f}{ratio(after):9.2f}{worst:7.2f}{refused:8}{planned:8}"
              f"{last['kinds_seen'] if last else 0:6}{last['kinds_known'] if last else 0:6}{share:9.1%}", flush=True)
print(f"{options.steps} steps; {'one limit for all' if options.fixed else 'limits are parts of the plain peak of each step'};"
      f" OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', 'not set')}, {os.cpu_count()} cores")
if options.json:
    with open(options.json, "w") as file:
        json.dump(results, file, indent=1)
