"""Starts ranks on the loopback and compares what they say. Usage: dist_test.py WORKER [TEST...]

Every process is ended by this one, whatever happens, and a run that takes too long is a failure.
"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

WORKER = sys.argv[1]
SECONDS = 300


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(size, *arguments, lost=(), told=None):
    """What each rank printed; `lost`: ranks that are expected not to end well; `told`: how many ranks there are, by rank."""
    environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
                       OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", GLOG_minloglevel="3", TORCH_CPP_LOG_LEVEL="ERROR")
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        try:
            for rank in range(size):
                with open(f"{folder}/{rank}", "w") as out:
                    own = dict(environment, RANK=str(rank), WORLD_SIZE=str(told[rank] if told else size))
                    ranks.append(subprocess.Popen([WORKER, *map(str, arguments)], env=own, stdout=out,
                                                  stderr=subprocess.STDOUT))
            until = time.monotonic() + SECONDS
            for rank, process in enumerate(ranks):
                if rank not in lost:
                    process.wait(timeout=max(1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        finally:
            codes = [process.poll() for process in ranks]
            for process in ranks:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
        texts = [open(f"{folder}/{rank}").read() for rank in range(size)]
    for rank in range(size):
        if rank not in lost and codes[rank] != 0:
            told = "\n".join(f"rank {r}: exit code {codes[r]}\n{texts[r]}" for r in range(size))
            raise SystemExit(f"dist: {size} ranks, {' '.join(map(str, arguments))}: rank {rank} "
                             f"{'did not end' if codes[rank] is None else f'ended with {codes[rank]}'}\n{told}")
    return texts


def same_on_all(texts, lost=()):
    """The hashes, which must be equal on all ranks."""
    hashes = [re.findall(r"^same (.*)$", text, re.M) for rank, text in enumerate(texts) if rank not in lost]
    if not hashes[0] or any(other != hashes[0] for other in hashes):
        raise SystemExit(f"dist: ranks differ: {hashes}")
    return hashes[0]


def training():
    """Bits, budgets, refusals, exceptions and sharding at 1 to 4 ranks."""
    for size in (1, 2, 3, 4):
        # First, before workers of the Reducer let go of its tensors.
        scenarios = ["resting", "reducer_rests", "scratch", "reducer", "differ", "several", "bad", "sharded"]
        if size > 1:
            scenarios += ["refusals", "throws"]
        texts = run(size, *scenarios)
        same_on_all(texts)
        for text in texts:
            assert re.findall(r"^done (\w+)$", text, re.M) == scenarios, text


def modes():
    """Checkpoints, budgets, accumulation and sharding: the Reducer's bits. long_test.py has more steps and ranks."""
    for size in (2, 3):
        texts = run(size, "oracle", 6)
        same_on_all(texts)
        assert texts[0].count("equal to the Reducer") == 20, texts[0]


def saved():
    """What one number of ranks saves another can load: the bits are those of a run that was not interrupted."""
    with tempfile.TemporaryDirectory() as folder:
        whole = same_on_all(run(1, "saved", "-", f"{folder}/whole", 12))
        last = "-"
        for size in (2, 4, 1):
            path = f"{folder}/{size}"
            parts = same_on_all(run(size, "saved", last, path, 4))
            last = path
        if parts != whole:
            raise SystemExit(f"dist: saved states give other bits: {parts}, not {whole}")
        saved_bytes = open(last, "rb").read()
        for damage in (saved_bytes[:-5], saved_bytes[:200] + bytes([saved_bytes[200] ^ 1]) + saved_bytes[201:]):
            with open(f"{folder}/broken", "wb") as out:
                out.write(damage)
            try:
                run(1, "saved", f"{folder}/broken", f"{folder}/none", 1)
            except SystemExit as error:
                assert "damaged" in str(error), error
            else:
                raise SystemExit("dist: a damaged file was loaded")


def one_fault(how, size, victim, step, place):
    texts = run(size, "fault", how, victim, step, place, lost=(victim,))
    for rank, text in enumerate(texts):
        if rank != victim:
            assert f"lost {victim} in '" in text and "done fault" in text, text
    if victim != 0:
        same_on_all(texts, lost=(victim,))


def faults():
    """Killed and stopped ranks, the store's host among them: a named error within the time-out of 8 s."""
    one_fault("killed", 3, 1, 3, "backward")
    one_fault("stopped", 3, 2, 2, "forward")
    one_fault("killed", 2, 0, 2, "begin")
    one_fault("stopped", 2, 0, 2, "backward")


def environment():
    """What a launcher that is none leaves out is named."""
    for name, value in (("WORLD_SIZE", "none"), ("RANK", "7"), ("MASTER_PORT", "")):
        variables = dict(os.environ, RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
        variables[name] = value
        done = subprocess.run([WORKER, "resting"], env=variables, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and f"{name} is '{value}'" in done.stderr, done.stderr
    try:  # "fault" has the short time-out
        run(2, "fault", "killed", 9, 1, "begin", told=(2, 3))
    except SystemExit as error:
        assert "ranks by WORLD_SIZE, another of" in str(error), error
    else:
        raise SystemExit("dist: two numbers of ranks, and nobody minds")


def main():
    tests = {test.__name__: test for test in (training, modes, saved, faults, environment)}
    for name in sys.argv[2:] or tests:
        tests[name]()
        print(f"dist: {name}")


if __name__ == "__main__":
    main()
