"""The README's example, run as it stands: what it prints of the process is what the operating system reports."""
import re
import resource
import subprocess
import sys
import unittest

EXAMPLE = sys.argv.pop(1)
MIB = 1 << 20


class Example(unittest.TestCase):
    def test_prints_what_the_system_says(self):
        run = subprocess.run([EXAMPLE], capture_output=True, text=True, timeout=300)
        self.assertEqual(run.returncode, 0, run.stderr)
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        printed = float(re.search(r"process .* ([0-9.]+) MiB at most since it began", run.stdout).group(1)) * MIB
        self.assertAlmostEqual(printed, most, delta=most * 0.01 + MIB)
        peak = float(re.search(r"peak +([0-9.]+) MiB measured", run.stdout).group(1))
        self.assertLessEqual(peak, 20)


unittest.main()
