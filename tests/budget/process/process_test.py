"""What the system sees of a budget: the process grows by little more than its limit, in every step and over many, gives
back what a learning step took, and survives in a container that kills plain training."""
import os
import resource
import subprocess
import sys
import unittest

import memory_group

PROBE = sys.argv.pop(1)
MB = 1000 * 1000


def fields(line):
    words = line.split()[1:]
    return {key: int(value) for key, value in zip(words[::2], words[1::2])}


class Run:
    """One run of the probe: its base, its steps and what it trained."""

    def __init__(self, size, steps, way, enter=None, one_thread=False):
        environment = dict(os.environ)
        if one_thread:  # each thread's arena reserves address space of its own
            environment.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MALLOC_ARENA_MAX="1")
        self.process = subprocess.run([PROBE, size, str(steps), way], env=environment, preexec_fn=enter,
                                      capture_output=True, text=True, timeout=900)
        lines = self.process.stdout.splitlines()
        self.base = next((fields(line) for line in lines if line.startswith("base")), None)
        self.steps = [fields(line) for line in lines if line.startswith("step")]
        self.trained = next((line for line in lines if line.startswith("trained")), None)

    def grown(self, key, step):
        return self.steps[step][key] - self.base["now"]


def bound(limit_bytes):
    return limit_bytes * 1.05 + 16 * MB


class ProcessSize(unittest.TestCase):
    def finished(self, *arguments, **options):
        run = Run(*arguments, **options)
        self.assertEqual(run.process.returncode, 0, run.process.stderr)
        return run

    def stays_small(self, run, first=0):
        for number, step in enumerate(run.steps):
            if number >= first:
                self.assertGreater(step["limit"], 0)
                self.assertLessEqual(step["tensors"], step["limit"], f"step {number}")
                self.assertLessEqual(run.grown("most", number), bound(step["limit"]), f"step {number}")

    @classmethod
    def setUpClass(cls):
        cls.plain = Run("large", 3, "plain")
        assert cls.plain.process.returncode == 0, cls.plain.process.stderr

    def test_plain_training_takes_half_a_gigabyte(self):
        self.assertAlmostEqual(max(step["tensors"] for step in self.plain.steps) / MB, 520, delta=20)

    def test_grows_by_little_more_than_its_limit(self):
        for limit in ("520MB", "300MB", "230MB", "165MB"):
            with self.subTest(limit=limit):
                run = self.finished("large", 3, limit)
                self.assertEqual(run.trained, self.plain.trained)
                self.stays_small(run)

    def test_what_a_learning_step_took_is_given_back(self):
        run = self.finished("large", 3, "30%")
        self.assertEqual(run.trained, self.plain.trained)
        self.assertGreater(run.steps[0]["tensors"], 2 * run.steps[1]["limit"])
        self.stays_small(run, first=1)

    def test_stays_as_it_is_over_many_steps(self):
        plain = self.finished("ragged", 500, "plain")
        run = self.finished("ragged", 500, f"{max(step['tensors'] for step in plain.steps) // 2}B")
        self.assertEqual(run.trained, plain.trained)
        self.stays_small(run)
        # The least of the last ones: what grows does not come back, what a moment held does.
        grown_to = min(step["now"] for step in run.steps[-50:])
        self.assertLessEqual(grown_to, max(step["now"] for step in run.steps[:100]) + 2 * MB)

    def test_survives_where_plain_training_is_killed(self):
        budget = 230 * MB
        why = memory_group.reason_for_none()
        if why:
            print(f"no memory cgroup can be made here ({why}); the address space is limited instead", file=sys.stderr)
            plain = self.finished("large", 3, "plain", one_thread=True)
            # Address space is also what is reserved and never touched.
            limit = int(plain.base["address"] + bound(budget) + 128 * MB)

            def enter():
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

            self.expect_survival(plain, budget, enter, one_thread=True)
            return
        plain = self.finished("large", 3, "plain")
        # Pages of libraries and of page tables count too, as far as they are this group's.
        with memory_group.MemoryGroup(int(plain.base["anonymous"] + bound(budget) + 32 * MB)) as group:
            self.expect_survival(plain, budget, group.enter)

    def expect_survival(self, plain, budget, enter, **options):
        self.assertNotEqual(Run("large", 3, "plain", enter, **options).process.returncode, 0)
        budgeted = self.finished("large", 3, f"{budget}B", enter=enter, **options)
        self.assertEqual(budgeted.trained, plain.trained)


unittest.main()
