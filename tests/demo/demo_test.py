"""The demo from outside: options, data, refusals, the report. Usage: demo_test.py DEMO"""
import gzip
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import unittest

DEMO = None


def idx(sizes, data):
    return struct.pack(f">{1 + len(sizes)}I", 0x800 + len(sizes), *sizes) + data


class Demo(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def run_demo(self, *arguments, code=0):
        done = subprocess.run([DEMO, *arguments], capture_output=True, text=True, cwd=self.path)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def write_images(self, count=20, labels=None, ending=".gz"):
        """A folder of small images."""
        pack = gzip.compress if ending else bytes
        labels = bytes(i % 10 for i in range(count)) if labels is None else labels
        images = self.path / "images"
        images.mkdir(exist_ok=True)
        pixels = bytes(i * 7 % 256 for i in range(count * 16 * 16))
        (images / f"train-images-idx3-ubyte{ending}").write_bytes(pack(idx([count, 16, 16], pixels)))
        (images / f"train-labels-idx1-ubyte{ending}").write_bytes(pack(idx([len(labels)], labels)))
        return str(images)

    def test_help_has_examples_and_says_where_reports_go(self):
        text = self.run_demo("--help").stdout
        self.assertIn("demo --budget 300MiB --model gpt", text)
        self.assertIn("report.cnn.html", text)

    def test_wrong_command_lines(self):
        for budget in "much", "0", "-1", "0%", "101%", "x%", "5%%", "":
            self.assertIn("--budget", self.run_demo(f"--budget={budget}", code=2).stderr)
        for arguments in ["--model", "rnn"], ["--steps", "0"], ["--threads", "0"], ["--paint"]:
            self.assertIn(arguments[0], self.run_demo(*arguments, code=2).stderr)

    def test_missing_data_is_named_at_once(self):
        done = self.run_demo("--model", "gpt", "--data", "no_book.txt", code=1)
        self.assertIn("no_book.txt", done.stderr)
        self.assertEqual(done.stdout, "")
        done = self.run_demo("--model", "cnn", "--data", "no_folder", code=1)
        self.assertIn("no_folder", done.stderr)
        self.assertIn("dataset-fashion-mnist", done.stderr)
        # With both, the path that is not there is taken for a text.
        self.assertIn("no_book.txt", self.run_demo("--data", "no_book.txt", code=1).stderr)

    def test_bad_data_is_named(self):
        (self.path / "short.txt").write_text("Too short.")
        self.assertIn("10 characters", self.run_demo("-q", "-m", "gpt", "-d", "short.txt", code=1).stderr)
        images = self.write_images(labels=bytes([3] * 19))
        self.assertIn("19 labels", self.run_demo("-q", "-m", "cnn", "-d", images, code=1).stderr)
        images = self.write_images(labels=bytes([10] * 20))
        self.assertIn("label 10", self.run_demo("-q", "-m", "cnn", "-d", images, code=1).stderr)
        labels = pathlib.Path(images) / "train-labels-idx1-ubyte.gz"
        labels.write_bytes(gzip.compress(idx([20], bytes(19))))
        self.assertIn("ends too early", self.run_demo("-q", "-m", "cnn", "-d", images, code=1).stderr)
        labels.write_bytes(b"no such format")
        self.assertIn("IDX", self.run_demo("-q", "-m", "cnn", "-d", images, code=1).stderr)

    def test_a_budget_far_too_small_is_refused_with_the_bytes_that_are_needed(self):
        done = self.run_demo("-q", "-m", "gpt", "--budget", "4KiB", code=1)
        self.assertRegex(done.stderr, r"budget: .*\d+ bytes.*the budget is 4.0 KiB")
        self.assertIn("Report: report.html", done.stdout)
        self.assertIn("A step was refused", (self.path / "report.html").read_text())

    def test_trains_within_bytes(self):
        done = self.run_demo("-q", "-m", "gpt", "--budget", "1GiB", "--threads", "1")
        self.assertIn("of 1.0 GiB", done.stdout)
        self.assertNotIn("DIFFERENT", done.stdout)

    def test_reports_are_written(self):
        (self.path / "book.txt").write_text("All work and some play. " * 20)
        for ending in ".gz", "":
            images = self.write_images(ending=ending)
        done = self.run_demo("-q", "-n", "4", "-d", "book.txt", "-d", images, "-r", "new/page.html")
        for model, name in ("gpt", "page.html"), ("cnn", "page.cnn.html"):
            page = (self.path / "new" / name).read_text()
            self.assertTrue(page.startswith("<!DOCTYPE html>"))
            self.assertIn(model, page)
            self.assertIn("a checkpoint a block", page)
            self.assertIn(f"Report: new/{name}\n", done.stdout)
        self.assertGreaterEqual(done.stdout.count("same bits"), 6)
        self.assertIn("round 5/5, a step of each", done.stdout)
        # The last three lines are what a person would quote.
        self.assertRegex(done.stdout, r"\n\ngpt: plain needs [^\n]*; in [^\n]* it (is|trains) [^\n]*\.\n"
                                      r"cnn: plain needs [^\n]*\nLosses and gradients [^\n]*, bit for bit\.\n$")
        self.assertNotIn("DIFFERENT", done.stdout)
        self.assertNotIn("\r", done.stdout)

    def test_one_model_writes_the_report_that_was_named(self):
        self.run_demo("-q", "-n", "4", "-m", "gpt", "-r", "page.html")
        self.assertIn("gpt", (self.path / "page.html").read_text())
        self.assertIn("none.txt", self.run_demo("-q", "-n", "1", "-m", "gpt", "-d", "none.txt", code=1).stderr)

    def test_one_line_is_rewritten_on_a_terminal(self):
        parent, child = pty.openpty()
        process = subprocess.Popen([DEMO, "-q", "-n", "4", "-m", "gpt"], stdout=child, cwd=self.path)
        os.close(child)
        seen = b""
        try:
            while chunk := os.read(parent, 4096):
                seen += chunk
        except OSError:  # The terminal's end.
            pass
        os.close(parent)
        self.assertEqual(process.wait(), 0)
        self.assertIn(b"\r  step 4/4", seen)


if __name__ == "__main__":
    DEMO = os.path.abspath(sys.argv.pop(1))
    unittest.main()
