"""Training steps of every workload, all ways of running them in one interleaved run.

Usage: run.py BUILD_DIR [--quick] [--no-budgets] [--workloads gpt,resnet,...] [--rounds N] [--small]
              [--json FILE] [--against BUILD_DIR]

Plain LibTorch, Encore at budgets and, for the GPT, Encore's and Python's checkpoints. A step is forward, backward and
Adam. Plain steps, Encore's and Python's run in processes of their own, one step at a time in turn: a process that reuses
freed blocks would make the others' faster. Peaks are bytes at the allocator, counted in the same way everywhere.
`--against` adds another commit's budgets, by its bench_steps, to the same rounds.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from server import Server  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("--quick", action="store_true")
parser.add_argument("--no-budgets", action="store_true", help="checkpoints alone")
parser.add_argument("--small", action="store_true")
parser.add_argument("--workloads", default="gpt,resnet,unet,lstm,tree")
parser.add_argument("--rounds", type=int)
parser.add_argument("--json")
parser.add_argument("--against", help="the build of another commit, whose budgets take their turns too")
options = parser.parse_args()

FRACTIONS = [] if options.no_budgets else [1.0, 0.5, 0.3] if options.quick else [1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2]
ROUNDS = options.rounds or (1 if options.quick else 4)
WARM_UP = 6  # a budget has its plan, from settled times, in the fourth step, and has measured enough after the sixth
SIZE = "small" if options.small else "real"
os.environ["PYTHONPATH"] = os.path.join(options.build, "python")
os.environ["OMP_WAIT_POLICY"] = "passive"  # an idle process must not spin on the cores of the one that is measured


class System:
    """One way of running steps, and what was measured of it."""

    def __init__(self, name, server, way, base=None, fraction=None, budget=None):
        self.name, self.server, self.way, self.base = name, server, way, base or self
        self.fraction, self.budget, self.steps, self.refused = fraction, budget, [], None

    def step(self, number):
        if self.refused is None:
            answer = self.server.step(number, self.way)
            if "refused" in answer:
                self.refused = answer["refused"]
            else:
                if self.name == "plain" and answer["held_bytes"] != 0:
                    sys.exit("plain steps reuse blocks: they are not plain")
                answer["step"] = number
                self.steps.append(answer)

    def seconds(self):
        return [step["seconds"] for step in self.steps if step["step"] >= WARM_UP]

    def is_as_python_plain(self):
        """Python's kernels are called in another way than C++'s: its steps are compared with its own plain ones."""
        hashes = {step["step"]: step["gradient_hash"] for step in self.base.steps if "gradient_hash" in step}
        return all(step["gradient_hash"] == hashes.get(step["step"]) for step in self.steps if "gradient_hash" in step)

    def result(self, workload, plain):
        result = {"workload": workload, "system": self.name, "budget_fraction": self.fraction,
                  "budget_bytes": self.budget, "refused": self.refused}
        if self.refused is None:
            measured = [step for step in self.steps if step["step"] >= WARM_UP]
            hashes = {step["step"]: step["hash"] for step in plain.steps}
            same = all(step["hash"] == hashes[step["step"]] for step in self.steps if "hash" in step)
            result.update({
                "budget_bytes": self.budget or measured[-1].get("budget_bytes") or None,
                "resting_bytes": measured[-1]["resting_bytes"],
                "peak_bytes": max(step["peak_bytes"] for step in measured),
                "predicted_peak_bytes": measured[-1].get("predicted_peak_bytes", -1),
                "plain_peak_bytes": max(step["peak_bytes"] for step in plain.steps if step["step"] >= WARM_UP),
                "step_seconds": self.seconds(),
                "time_ratio": statistics.median(self.seconds()) / statistics.median(self.base.seconds()),
                "time_ratio_minimum": min(self.seconds()) / min(self.base.seconds()),
                "max_abs_grad_diff": max(step.get("max_abs_grad_diff", 0.0 if same else float("inf"))
                                         for step in self.steps),
                "same_bits": same and self.is_as_python_plain(),
                "mode": measured[-1].get("mode"),
                "planning_seconds": max(step.get("planning_seconds", 0) for step in self.steps),
                "ops_replayed": measured[-1].get("ops_replayed", 0),
                "replay_seconds": measured[-1].get("replay_seconds", 0),
            })
        return result


class Servers:
    """The processes of one workload."""

    def __init__(self, workload, folder):
        self.arguments = ["bench/bench_steps", workload, SIZE]
        self.folder = folder
        self.running = []

    def add(self, build, *extra):
        self.running.append(Server(os.path.join(build, self.arguments[0]), *self.arguments[1:], *extra))
        return self.running[-1]

    def start(self, *extra, build=None):
        server = self.add(build or options.build, *extra)
        server.step(0, "plain")  # from here on gradients and the optimizer's state rest
        return server

    def start_python(self, *extra):
        self.running.append(Server("/usr/bin/python3", "bench/steps/python_server.py",
                                   os.path.join(options.build, "bench", "libbench_meter.so"), self.folder,
                                   *(["--small"] if options.small else []), *extra))
        self.running[-1].step(0, "plain")
        return self.running[-1]

    def close(self):
        for server in self.running:
            server.close()


def checkpoints_of_gpt(plain, reuse_server, python_plain):
    python = python_plain.server
    systems = [
        System("Scope(keep_all())", plain.server, "keep_all", plain),
        System("Encore, a checkpoint a block", plain.server, "per_block", plain),
        System("Encore, the same, blocks reused", reuse_server, "per_block", plain),
        System("Encore, keep_matmuls()|pack_masks()", plain.server, "keep_matmuls", plain),
        System("Encore, kRerun", plain.server, "rerun", plain),
        python_plain,
        System("Python, a checkpoint a block", python, "checkpoint", python_plain),
        System("Python, the same, reentrant", python, "reentrant", python_plain),
    ] + [System(f"Python, checkpoint_sequential({n})", python, f"sequential {n}", python_plain)
         for n in ([2] if options.small else [4] if options.quick else [2, 4])]
    if options.quick:
        systems = [system for system in systems if system.way in ("plain", "per_block", "checkpoint")]
    return systems


def systems_of_gpt(servers, plain, reuse_server, resting):
    """Checkpoints here and in Python, Encore in Python, and Encore within the bytes that Python's checkpoints reach."""
    python_plain = System("Python, plain", servers.start_python(), "plain")
    systems = checkpoints_of_gpt(plain, reuse_server, python_plain)
    step = python_plain.server.step(1, "plain")
    python_rest, python_activations = step["resting_bytes"], step["peak_bytes"] - step["resting_bytes"]
    step = python_plain.server.step(1, "checkpoint")
    limit = resting + step["peak_bytes"] - step["resting_bytes"]
    for fraction in [f for f in FRACTIONS if f in (1.0, 0.5, 0.3)]:
        own = python_rest + int(fraction * python_activations)
        systems.append(System(f"Encore in Python, {fraction:.0%} budget", servers.start_python("--encore"),
                              f"budget {own}", python_plain, None, own))
    if not (options.quick or options.no_budgets):
        systems.append(System("Encore in Python, a checkpoint a block", servers.start_python("--encore"), "encore",
                              python_plain))
        systems.append(System("Encore, budget of Python's peak", servers.start(), f"budget {limit}", plain, None, limit))
    return systems


def budgets(servers, plain, activations, resting):
    """Each in a process of its own: a smaller budget would give the blocks of a larger one back to the system."""
    systems = []
    for fraction in FRACTIONS:
        limit = resting + int(fraction * activations)
        systems.append(System(f"Encore, {fraction:.0%} budget", servers.start(), f"budget {limit}", plain, fraction,
                              limit))
    if not (options.quick or options.no_budgets):
        systems.append(System("Encore, the least budget it names", servers.start(), "least", plain))
    return systems


def with_other_build(servers, systems):
    return [System(f"the other build, {system.fraction:.0%} budget", servers.start(build=options.against), system.way,
                   system.base, None, system.budget) for system in systems if system.fraction]


def run_rounds(workload, systems):
    for number in range(WARM_UP + ROUNDS):
        for system in systems:
            # Only what has to warm up does: plans are made and times settle in a budget's first steps.
            if number >= WARM_UP - 1 or "budget" in system.way or system.way == "least":
                system.step(number)
            elif system is system.base:  # the others are compared with it, step by step
                system.step(number)
        print(f"{workload}: round {number + 1} of {WARM_UP + ROUNDS}", file=sys.stderr)


def run_workload(workload, folder):
    servers = Servers(workload, folder)
    plain = System("plain", servers.add(options.build, *(["--dump", folder] if workload == "gpt" else [])), "plain")
    first = [plain.server.step(number, "plain") for number in range(WARM_UP)]
    activations = max(step["peak_bytes"] - step["resting_bytes"] for step in first[2:])
    resting = first[-1]["resting_bytes"]
    # What a budget of 100% takes more than this is recording.
    reuse_server = servers.start("--reuse")
    systems = [plain, System("plain, blocks reused", reuse_server, "plain", plain)]
    if workload == "gpt":
        systems += systems_of_gpt(servers, plain, reuse_server, resting)
    systems += budgets(servers, plain, activations, resting)
    if options.against:
        systems += with_other_build(servers, systems)
    if workload == "tree" and systems[-1].way == "least":
        systems.pop()  # no two of its steps are alike: what is named after one says nothing of the next
    run_rounds(workload, systems)
    for system in systems:
        if system.fraction == 0.5 and system.refused is None and options.json:
            file = os.path.join(os.path.dirname(options.json) or ".", f"{workload}.run.json")
            system.server.step(0, f"run {system.budget} {file}")
    servers.close()
    return [system.result(workload, plain) for system in systems]


def print_table(workload, results):
    print(f"\n{workload}: a step is forward, backward and Adam; extra time over the plain step of the same side")
    print(f"{'':39} {'peak MB':>8} {'above rest':>10} {'predicted':>9} {'median s':>9} {'extra':>7} {'min s':>7} "
          f"{'extra':>7} {'replayed':>8}  gradients")
    for row in results:
        if row["refused"]:
            print(f"{row['system']:39} refused: {row['refused'][:120]}")
            continue
        predicted = f"{row['predicted_peak_bytes'] / 1e6:9.1f}" if row["predicted_peak_bytes"] > 0 else f"{'':9}"
        same = "same bits" if row["same_bits"] else f"differ by {row['max_abs_grad_diff']:.1e}"
        above = (row["peak_bytes"] - row["resting_bytes"]) / 1e6
        print(f"{row['system']:39} {row['peak_bytes'] / 1e6:8.1f} {above:10.1f} {predicted} "
              f"{statistics.median(row['step_seconds']):9.3f} {row['time_ratio'] - 1:7.1%} "
              f"{min(row['step_seconds']):7.3f} {row['time_ratio_minimum'] - 1:7.1%} {row['ops_replayed']:8}  {same}")


if options.json:
    os.makedirs(os.path.dirname(options.json) or ".", exist_ok=True)
all_results = []
for name in options.workloads.split(","):
    with tempfile.TemporaryDirectory() as scratch:
        table = run_workload(name, scratch)
    print_table(name, table)
    all_results += table
print(f"\n{ROUNDS} interleaved rounds; OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', 'not set')}, "
      f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'not set')}, {os.cpu_count()} cores")
if options.json:
    with open(options.json, "w") as file:
        json.dump(all_results, file, indent=1)
if any(row["refused"] is None and not row["same_bits"] and row["system"].startswith("Encore")
       for row in all_results):
    sys.exit("a gradient differs from the plain run")
if any(row["budget_bytes"] and row["refused"] is None and row["peak_bytes"] > row["budget_bytes"]
       for row in all_results):
    sys.exit("a budget was not kept")
