"""What takes too long for `make test`. Usage: long_test.py WORKER oracle|steady|storm [--ranks 2,3,4,8] [--steps N]
[--faults N] [--seed N]

oracle: bits equal to the Reducer's after 50 steps in every mode. steady: peaks within the limit over 1,000 steps on a
loaded machine. storm: random kills, stops and throws over runs on 4 ranks, the store's host included; each ends in an
error that names the rank, and the run, resumed from its last saved state, in the bits of one that nobody disturbed.
"""
import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("worker")
parser.add_argument("test", choices=("oracle", "steady", "storm"))
parser.add_argument("--ranks", default="")
parser.add_argument("--steps", type=int, default=0)
parser.add_argument("--faults", type=int, default=200)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()
sys.argv = sys.argv[:2]
import dist_test  # reads the worker's path from sys.argv

TIMEOUT = 8  # of the worker's groups, seconds
dist_test.SECONDS = 1800


def sizes(usual):
    return [int(word) for word in (options.ranks or usual).split(",")]


def oracle():
    steps = options.steps or 50
    for size in sizes("2,3,4,8"):
        texts = dist_test.run(size, "oracle", steps)
        dist_test.same_on_all(texts)
        modes = re.findall(r"^equal to the Reducer .*: (.*)$", texts[0], re.M)
        print(f"{size} ranks, {steps} steps, equal to the Reducer and on all ranks: {'; '.join(modes)}", flush=True)


def steady():
    steps = options.steps or 1000
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        for size in sizes("4"):
            texts = dist_test.run(size, "steady", steps)
            dist_test.same_on_all(texts)
            for text in texts:
                print(re.search(r"^steady: .*$", text, re.M).group(), flush=True)
    finally:
        for process in load:
            process.kill()
            process.wait()


class Ranks:
    """The processes of one incarnation."""

    def __init__(self, size, *arguments):
        self.folder = tempfile.TemporaryDirectory()
        environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(dist_test.free_port()), WORLD_SIZE=str(size),
                           OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", GLOG_minloglevel="3", TORCH_CPP_LOG_LEVEL="ERROR")
        self.processes = []
        for rank in range(size):
            with open(f"{self.folder.name}/{rank}", "w") as out:
                self.processes.append(subprocess.Popen([options.worker, *map(str, arguments)], stdout=out,
                                                       stderr=subprocess.STDOUT, env=dict(environment, RANK=str(rank))))

    def text(self, rank):
        with open(f"{self.folder.name}/{rank}") as file:
            return file.read()

    def all_began(self):
        until = time.monotonic() + 120
        while time.monotonic() < until and all(process.poll() is None for process in self.processes):
            if all("began at" in self.text(rank) for rank in range(len(self.processes))):
                return True
            time.sleep(0.02)
        return False

    def end(self, but=None, seconds=600):
        """Exit codes of all but one; a rank that is still there after a long time is a hang."""
        until = time.monotonic() + seconds
        codes = {}
        for rank, process in enumerate(self.processes):
            if rank != but:
                try:
                    codes[rank] = process.wait(timeout=max(0.1, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    codes[rank] = "hangs"
        return codes

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def fail(self, why):
        told = "\n".join(f"rank {rank}: {self.text(rank)}" for rank in range(len(self.processes)))
        self.kill()
        raise SystemExit(f"dist: {why}\n{told}")


def struck(chance, path, steps, size, number):
    """One incarnation in which a rank is killed or stopped; returns the most seconds that a rank's step took to end in
    the error, or None if the run ended before the strike."""
    how, victim = chance.choice(("killed", "stopped")), chance.randrange(size)
    while_joining = chance.random() < 0.15
    ranks = Ranks(size, "storm", path, steps, "-")
    try:
        if not while_joining and not ranks.all_began():
            ranks.fail(f"fault {number}: not all began")
        time.sleep(chance.random() * (0.5 if while_joining else 1.0))
        if any(process.poll() is not None for process in ranks.processes):
            codes = ranks.end()
            if set(codes.values()) != {0}:
                ranks.fail(f"fault {number}: ended by themselves with {codes}")
            return None
        ranks.processes[victim].send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        codes = ranks.end(but=victim, seconds=TIMEOUT + 60)
        texts = {rank: ranks.text(rank) for rank in codes}
        if set(codes.values()) == {0}:
            return None  # in its last moments
        for rank, code in codes.items():
            if code != 3 or f"lost {victim} in '" not in texts[rank]:
                ranks.fail(f"fault {number}, {how} rank {victim}: rank {rank} ended with {code}, not by naming it")
        example = re.search(r"^lost .*$", texts[(victim + 1) % size], re.M).group()
        # From the beginning of the step (or of the process) to the error, as the ranks themselves say.
        seconds = max(float(re.search(r"^lost .*' after ([0-9.e-]+) s: ", text, re.M).group(1)) for text in texts.values())
        print(f"{number}: {how} rank {victim}{' while joining' if while_joining else ''}: {example}", flush=True)
        return seconds
    finally:
        ranks.kill()


def thrown(chance, path, steps, size, number):
    """One incarnation in which a rank throws: all are told, and go on by themselves to the end."""
    victim, place = chance.randrange(size), chance.choice(("forward", "backward", "replay", "budget"))
    ranks = Ranks(size, "storm", path, steps, f"{victim}:{chance.randrange(1, 4)}:{place}")
    try:
        codes = ranks.end()
        if set(codes.values()) != {0}:
            ranks.fail(f"fault {number}, rank {victim} throws in {place}: ended with {codes}")
        for rank in codes:
            if f"told of {victim}: " not in ranks.text(rank):
                ranks.fail(f"fault {number}, rank {victim} throws in {place}: rank {rank} was not told")
        example = re.search(r"^told .*$", ranks.text((victim + 1) % size), re.M).group()
        print(f"{number}: rank {victim} throws in {place}; {example}", flush=True)
        return [re.search(r"^same final (.*)$", ranks.text(rank), re.M).group(1) for rank in codes]
    finally:
        ranks.kill()


def storm():
    """A run: three strikes with kills and stops, then one with a throw, which ends it. Until there were so many faults."""
    size, steps, chance = sizes("4")[0], options.steps or 60, random.Random(options.seed)
    faults, runs, longest = 0, 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        calm = Ranks(size, "storm", f"{folder}/calm", steps, "-")
        try:
            if set(calm.end().values()) != {0}:
                calm.fail("the undisturbed run")
            bits = re.search(r"^same final (.*)$", calm.text(0), re.M).group(1)
        finally:
            calm.kill()
        while faults < options.faults:
            path = f"{folder}/{runs}"
            for _ in range(3):
                seconds = struck(chance, path, steps, size, faults + 1)
                if seconds is None:
                    if os.path.exists(path):
                        os.remove(path)  # the run is over: another one
                    continue
                faults, longest = faults + 1, max(longest, seconds)
            ends = thrown(chance, path, steps, size, faults + 1)
            faults, runs = faults + 1, runs + 1
            if set(ends) != {bits}:
                raise SystemExit(f"dist: run {runs} has the bits {ends}, undisturbed {bits}")
    print(f"dist: {faults} faults on {size} ranks over {runs} runs, each named, within {longest:.1f} s of the step's beginning "
          f"at most (time-out {TIMEOUT} s); each run's final bits are those of the undisturbed one")


{"oracle": oracle, "steady": steady, "storm": storm}[options.test]()
