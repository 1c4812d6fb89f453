"""The `encore` command from outside: files, options, output, exit codes. Usage: encore_test.py ENCORE"""
import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

ENCORE = None

CHAIN = {"format": "encore-chain-1", "input_bytes": 100,
         "stages": [{"forward_time": 1 + s % 3, "backward_time": 2, "output_bytes": 50 + 10 * (s % 2),
                     "saved_bytes": 200 + 7 * s, "forward_temp_bytes": 0, "backward_temp_bytes": 0} for s in range(12)]}

RUN = {"format": "encore-run-1", "name": "<script>alert(1)</script>",
       "steps": [{"index": 0, "mode": "planned", "measured_peak_bytes": 4096, "step_seconds": 0.5}],
       "events": [{"name": "aten::mm", "category": "forward", "start_us": 1, "duration_us": 2, "thread": 0}]}


def joint_graph(length):
    steps = [{"name": f"f{i}", "time": 1 + i % 4, "bytes": 10 + i % 3, "temp_bytes": 1,
              "inputs": [i - 1] if i else []} for i in range(length)]
    for i in reversed(range(length)):
        inputs = [i] + ([i - 1] if i else []) + ([len(steps) - 1] if i < length - 1 else [])
        steps.append({"name": f"b{i}", "time": 2, "bytes": 10, "temp_bytes": 0, "inputs": inputs})
    return {"format": "encore-graph-1", "steps": steps, "outputs": [2 * length - 1]}


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.graph = self.write("graph.json", json.dumps(joint_graph(10)))
        self.chain = self.write("chain.json", json.dumps(CHAIN))

    def write(self, name, text):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(text)
        return str(path)

    def run_encore(self, *arguments, code=0):
        done = subprocess.run([ENCORE, *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_plan_prints_every_field_and_a_schedule_that_simulates(self):
        for problem in self.graph, self.chain:
            done = self.run_encore("plan", problem, "--budget", "75%", "--json")
            plan = json.loads(done.stdout)
            self.assertTrue(plan["feasible"])
            for field in ("time", "baseline_time", "peak_bytes", "budget_bytes", "baseline_peak_bytes",
                          "min_feasible_bytes", "lower_bound_time", "planning_seconds", "schedule"):
                self.assertIn(field, plan)
            self.assertEqual(plan["budget_bytes"], plan["baseline_peak_bytes"] * 3 // 4)
            self.assertLessEqual(plan["peak_bytes"], plan["budget_bytes"])
            self.assertGreater(plan["time"], plan["baseline_time"])
            self.assertEqual(done.stderr, "")
            schedule = self.write("plan.json", done.stdout)
            verdict = json.loads(self.run_encore("simulate", problem, schedule, "--json").stdout)
            self.assertEqual(verdict, {"valid": True, "time": plan["time"], "peak_bytes": plan["peak_bytes"],
                                       "in_order": True})

    def test_plan_for_people(self):
        text = self.run_encore("plan", self.graph, "--budget", "80%").stdout
        for word in ("budget", "plain run", "plan", "lower bound", "least budget"):
            self.assertIn(word, text)

    def test_plan_writes_the_schedule(self):
        path = os.path.join(self.folder.name, "s.json")
        self.run_encore("plan", self.graph, "--budget", "80%", "-o", path)
        self.assertIn("peak", self.run_encore("simulate", self.graph, path).stdout)

    def test_a_budget_that_is_too_small_is_refused_with_one_that_would_do(self):
        for problem in self.graph, self.chain:
            for budget in "0", "5%":
                done = self.run_encore("plan", problem, "--budget", budget, "--json", code=3)
                plan = json.loads(done.stdout)
                self.assertFalse(plan["feasible"])
                self.assertIsNone(plan["time"])
                self.assertIn(str(plan["min_feasible_bytes"]), done.stderr)
                self.run_encore("plan", problem, "--budget", str(plan["min_feasible_bytes"]))

    def test_curve_falls_and_every_point_simulates(self):
        for problem in self.graph, self.chain:
            svg = os.path.join(self.folder.name, "curve.svg")
            curve = json.loads(self.run_encore("curve", problem, "--json", "--svg", svg, "--points", "8").stdout)
            points = curve["points"]
            self.assertGreater(len(points), 3)
            for a, b in zip(points, points[1:]):
                self.assertLess(a["budget_bytes"], b["budget_bytes"])
                self.assertGreater(a["time"], b["time"])
            for point in points:
                schedule = self.write("point.json", json.dumps({"format": "encore-schedule-1",
                                                                "schedule": point["schedule"]}))
                verdict = json.loads(self.run_encore("simulate", problem, schedule, "--json").stdout)
                self.assertEqual(verdict["peak_bytes"], point["budget_bytes"])
                self.assertEqual(verdict["time"], point["time"])
            picture = xml.dom.minidom.parse(svg)
            self.assertEqual(len(picture.getElementsByTagName("circle")), len(points))
        self.assertIn("overhead", self.run_encore("curve", self.chain).stdout)

    def test_bad_files_are_named(self):
        missing = os.path.join(self.folder.name, "missing.json")
        self.assertIn(missing, self.run_encore("plan", missing, "--budget", "1", code=1).stderr)
        for text, words in (("", ["not JSON"]), ("{", ["not JSON"]),
                            (json.dumps({**CHAIN, "format": "x"}), ["format"]),
                            (json.dumps(joint_graph(3)).replace('"time": 2', '"time": -2', 1), ["step 1", "time"])):
            bad = self.write("bad.json", text)
            for command in (["plan", bad, "--budget", "1"], ["curve", bad], ["simulate", bad, self.graph]):
                done = self.run_encore(*command, code=1)
                for word in [bad] + words:
                    self.assertIn(word, done.stderr)
        self.assertIn("is a folder", self.run_encore("plan", self.folder.name, "--budget", "1", code=1).stderr)
        unwritable = os.path.join(self.folder.name, "none", "s.json")
        self.assertIn(unwritable, self.run_encore("plan", self.graph, "-b", "90%", "-o", unwritable, code=1).stderr)

    def test_bad_budgets_are_named(self):
        for budget in "80%x", "-1", "much", "80 %", "nan%", "1e400":
            done = self.run_encore("plan", self.graph, f"--budget={budget}", code=1)
            self.assertIn(budget, done.stderr)

    def test_a_wrong_schedule_is_refused(self):
        schedule = self.write("s.json", json.dumps({"format": "encore-schedule-1", "schedule": [["compute", 1]]}))
        self.assertIn("input 0", self.run_encore("simulate", self.graph, schedule, code=3).stderr)
        schedule = self.write("s.json", json.dumps({"format": "encore-schedule-1", "schedule": [["compute", 99]]}))
        self.assertIn("schedule[0]", self.run_encore("simulate", self.graph, schedule, code=1).stderr)

    def test_report_and_trace_write_their_files_and_say_nothing(self):
        run = self.write("run.json", json.dumps(RUN))
        for command, begin in ("report", "<!DOCTYPE html>"), ("trace", '{"displayTimeUnit"'):
            out = pathlib.Path(self.folder.name) / command
            done = self.run_encore(command, run, "-o", str(out))
            self.assertEqual(done.stdout + done.stderr, "")
            self.assertTrue(out.read_text().startswith(begin))
        page = (pathlib.Path(self.folder.name) / "report").read_text()
        self.assertIn("&lt;script&gt;alert(1)", page)
        self.assertNotIn("<script>alert", page)
        events = json.loads((pathlib.Path(self.folder.name) / "trace").read_text())["traceEvents"]
        self.assertEqual([(e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"], [("aten::mm", 1, 2)])

    def test_bad_runs_are_named(self):
        out = os.path.join(self.folder.name, "out")
        for text, words in (("", ["not JSON"]), ("[]", ["not an object"]), (json.dumps(CHAIN), ["format"]),
                            (json.dumps({**RUN, "limit_bytes": "much"}), ["limit_bytes", "string"]),
                            (json.dumps({**RUN, "steps": [{"index": 0, "mode": "fast"}]}), ["steps[0]: mode", "fast"])):
            bad = self.write("bad.json", text)
            for command in "report", "trace":
                done = self.run_encore(command, bad, "-o", out, code=1)
                for word in [bad] + words:
                    self.assertIn(word, done.stderr)
                self.assertFalse(os.path.exists(out))
        run = self.write("run.json", json.dumps(RUN))
        for command in "report", "trace":
            missing = os.path.join(self.folder.name, "missing.json")
            self.assertIn(missing, self.run_encore(command, missing, "-o", out, code=1).stderr)
            unwritable = os.path.join(self.folder.name, "none", "x")
            self.assertIn(unwritable, self.run_encore(command, run, "-o", unwritable, code=1).stderr)
            self.assertIn(run, self.run_encore(command, run, "-o", run, code=1).stderr)
            self.assertEqual(pathlib.Path(run).read_text(), json.dumps(RUN))

    def test_wrong_command_lines(self):
        for arguments in ([], ["paint"], ["plan"], ["plan", self.graph], ["curve", self.graph, "--points", "0"],
                          ["plan", self.graph, "-b", "80%", "--seconds", "nan"],
                          ["report"], ["report", self.graph], ["report", "-o", "x"], ["trace", self.graph, "-o"]):
            self.assertNotEqual(self.run_encore(*arguments, code=2).stderr, "")

    def test_says_its_version(self):
        self.assertRegex(self.run_encore("--version").stdout, r"^encore \d+\.\d+\.\d+\n$")

    def test_help_has_examples(self):
        self.assertIn("encore plan graph.json --budget 80%", self.run_encore("--help").stdout)
        for command in "plan", "curve", "simulate", "report", "trace":
            self.assertIn(f"Example: encore {command}", self.run_encore(command, "--help").stdout)

    def test_progress_only_on_a_terminal_and_only_after_a_second(self):
        # A long curve: on a terminal it says how far it is, in a pipe it is silent.
        command = [ENCORE, "curve", self.write("large.json", json.dumps(joint_graph(400))), "--points", "24",
                   "--effort", "300"]
        self.assertEqual(subprocess.run(command, capture_output=True, text=True).stderr, "")
        parent, child = pty.openpty()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=child)
        os.close(child)
        seen = b""
        try:
            while chunk := os.read(parent, 4096):
                seen += chunk
        except OSError:  # The terminal's end.
            pass
        self.assertEqual(process.wait(), 0)
        os.close(parent)
        self.assertIn(b"curve:", seen)
        self.assertIn(b"%", seen)


if __name__ == "__main__":
    ENCORE = os.path.abspath(sys.argv.pop(1))
    unittest.main()
