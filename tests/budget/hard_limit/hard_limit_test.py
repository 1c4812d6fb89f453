"""In a process with a hard memory limit plain training dies and the budgeted run finishes, with the same gradient."""
import os
import resource
import subprocess
import sys
import unittest

PROBE = sys.argv.pop(1)
MB = 1000 * 1000


def run(way, limit_bytes=None):
    def limit():
        if limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))

    # One thread: each thread's arena reserves address space of its own.
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MALLOC_ARENA_MAX="1")
    return subprocess.run([PROBE, way], env=environment, preexec_fn=limit, capture_output=True, text=True, timeout=300)


class HardLimit(unittest.TestCase):
    def test_plain_training_dies_and_the_budgeted_run_finishes(self):
        # What a tiny step takes, libraries and all, and room for the budget and a little more.
        limit = int(run("small").stdout.split()[-1]) + 250 * MB
        plain = run("plain")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.assertNotEqual(run("plain", limit).returncode, 0)
        budgeted = run("150MB", limit)
        self.assertEqual(budgeted.returncode, 0, budgeted.stderr)
        self.assertEqual(budgeted.stdout.split()[1], plain.stdout.split()[1])


unittest.main()
