"""What Encore costs in Python, next to C++: for each op, and a GPT and torchvision's ResNet-50 within budgets.

Usage: run.py BUILD_DIR [--rounds N] [--models gpt,resnet] [--small] [--no-overhead] [--chains N]

Each way of running is a process of its own, or shares one with ways that leave nothing behind, and all of them take a step in
turn. Seconds are of the processor, of all threads; peaks are exact, at the allocator. "Extra" is over the plain step of the
same language. The chain of ops is bench_record's, in both languages; the best of each way counts.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from server import Server  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("--rounds", type=int, default=4)
parser.add_argument("--chains", type=int, default=5, help="rounds of the chain of ops")
parser.add_argument("--models", default="gpt,resnet")
parser.add_argument("--small", action="store_true")
parser.add_argument("--no-overhead", action="store_true", help="the models alone")
options = parser.parse_args()

os.environ.update(PYTHONPATH=os.path.join(options.build, "python"), OMP_WAIT_POLICY="passive")
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
WARM_UP = 4  # a budget has its plan, from settled times, in the fourth step
CHAINS = [("idle", "imported, nothing open"), ("keep_all", "Scope(keep_all())"), ("checkpoint", "checkpoint"),
          ("planned", "budget that fits, planned")]


def chain(side, way):
    if side == "Python":
        command = [PYTHON, os.path.join(HERE, "record.py"), way]
    else:
        command = [os.path.join(options.build, "bench", "bench_record_plain" if way == "plain" else "bench_record"), way]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(word) for word in run.stdout.split()]


def print_overhead():
    """An op of the chain saves two tensors, so a saved tensor costs at most half of what an op does."""
    best = {}
    for _ in range(options.chains):
        for way in ["plain"] + [way for way, _ in CHAINS]:
            for side in ("C++", "Python"):
                figures = chain(side, way)
                best[side, way] = [min(pair) for pair in zip(best.get((side, way), figures), figures)]
    print("| us an op, which saves two tensors, above plain | C++ forward | Python | difference | C++ backward | Python | "
          "difference |\n|---|---|---|---|---|---|---|")
    worst = 0
    for way, name in CHAINS:
        cells = []
        for part in (0, 1):
            above = [(best[side, way][part] - best[side, "plain"][part]) / 1e3 for side in ("C++", "Python")]
            cells += [f"{above[0]:+.2f}", f"{above[1]:+.2f}", f"{above[1] - above[0]:+.2f}"]
            worst = max(worst, above[1] - above[0])
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"\nAt most {worst:.2f} us an op above the C++ host; a saved tensor at most {worst / 2:.2f}.")


class System:
    """One way of running steps, and what was measured of it."""

    def __init__(self, name, server, way, plain=None, limit=None):
        self.name, self.server, self.way, self.plain, self.limit = name, server, way, plain or self, limit
        self.steps, self.refused = {}, None

    def step(self, number):
        if self.refused is None:
            answer = self.server.step(number, self.way)
            self.refused = answer.get("refused")
            if self.refused is None:
                self.steps[number] = answer

    def measured(self):
        return [step for number, step in self.steps.items() if number >= WARM_UP]

    def seconds(self):
        return statistics.median(step["processor_seconds"] for step in self.measured())

    def ratio(self):
        return self.seconds() / self.plain.seconds()

    def same_bits(self):
        def hash_of(step):
            return step.get("hash", step.get("gradient_hash"))

        return all(hash_of(step) == hash_of(self.plain.steps[number]) for number, step in self.steps.items())

    def is_over(self):
        return self.limit is not None and any(step["peak_bytes"] > self.limit for step in self.steps.values())


def systems_of(model, folder):
    size = "small" if options.small else "real"
    cpp = [os.path.join(options.build, "bench", "bench_steps"), model, size]
    python = [PYTHON, os.path.join(HERE, "resnet_server.py")]
    if model == "gpt":
        python = [PYTHON, os.path.join(HERE, "..", "steps", "python_server.py"),
                  os.path.join(options.build, "bench", "libbench_meter.so"), folder, "--encore"]
    python += ["--small"] if options.small else []
    dump = ["--dump", folder] if model == "gpt" else []
    systems = []
    for side, command in (("C++", cpp + dump), ("Python", python)):
        server = Server(*command)
        for number in range(WARM_UP):
            first = server.step(number, "plain")
        rest, activations = first["resting_bytes"], first["peak_bytes"] - first["resting_bytes"]
        plain = System(f"{side}, plain", server, "plain")
        systems.append(plain)
        if side == "Python":
            what = "block" if model == "gpt" else "stage"
            systems += [System(f"Python, torch.utils.checkpoint, a {what}", server, "checkpoint", plain),
                        System("Python, the same, reentrant", server, "reentrant", plain),
                        System(f"Python, encore.checkpoint, a {what}", server, "encore", plain)]
        for part in (1.0, 0.5, 0.3):
            limit = rest + int(part * activations)
            own = Server(*(cpp if side == "C++" else python))
            own.step(0, "plain")  # from here on gradients and the optimizer's state rest
            systems.append(System(f"{side}, Encore within {part:.0%}", own, f"budget {limit}", plain, limit))
    return systems


def print_model(model):
    with tempfile.TemporaryDirectory() as folder:
        systems = systems_of(model, folder)
        for number in range(WARM_UP + options.rounds):
            for system in systems:
                if number >= WARM_UP or system.limit is not None or system.plain is system:
                    system.step(number)
            print(f"{model}: round {number + 1} of {WARM_UP + options.rounds}", file=sys.stderr)
        for server in {system.server for system in systems}:
            server.close()
    print(f"\n{model}: a step is forward, backward and Adam\n\n"
          "| | peak above rest MB | processor s | extra | gradients | mode |\n|---|---|---|---|---|---|")
    for system in systems:
        if system.refused:
            print(f"| {system.name} | refused: {system.refused[:100]} | | | | |")
            continue
        last = system.measured()[-1]
        peak = max(step["peak_bytes"] - step["resting_bytes"] for step in system.measured())
        print(f"| {system.name} | {peak / 1e6:.1f} | {system.seconds():.2f} | {system.ratio() - 1:+.1%} | "
              f"{'same bits' if system.same_bits() else 'differ'} | {last.get('mode', '') if system.limit else ''} |")
    ratios = {system.name: system.ratio() for system in systems if system.limit and system.refused is None}
    for part in ("100%", "50%", "30%"):
        both = [ratios.get(f"{side}, Encore within {part}") for side in ("Python", "C++")]
        if None not in both:
            print(f"\nWithin {part}: a step takes {both[0]:.3f} x plain in Python and {both[1]:.3f} x plain in C++, "
                  f"{both[0] / both[1]:.3f} of that.", end="")
    print()
    ours = [system for system in systems if "ncore" in system.name and system.refused is None]
    return all(system.same_bits() and not system.is_over() for system in ours)


if not options.no_overhead:
    print_overhead()
if not all([print_model(model) for model in options.models.split(",")]):
    raise SystemExit("a gradient differs from the plain run, or a budget was not kept")
