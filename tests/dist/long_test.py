"""Random kills and stops of random ranks, the store's host included. Usage: long_test.py WORKER RUNS [SEED]

Each must end in an error that names the rank within the time-out (checked by the worker and by faults()), none hangs.
"""
import random
import sys

sys.argv, runs, seed = sys.argv[:2], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
import dist_test  # reads the worker's path from sys.argv

chance = random.Random(seed)
for number in range(runs):
    size = chance.choice((2, 3, 4))
    how, victim = chance.choice(("killed", "stopped")), chance.randrange(size)
    dist_test.one_fault(how, size, victim, step=chance.randrange(1, 6), place=chance.choice(("begin", "forward", "backward")))
    print(f"{number + 1}: {how} rank {victim} of {size}", flush=True)
print(f"dist: {runs} faults, each named")
