"""scripts/run_tests.py: how it ends a suite, and counts what passed."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
from runner import counts, processes  # noqa: E402


def group_of(script):
    """A shell with a child in its process group, when the child has said that it is ready."""
    process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    process.stdout.readline()
    return process


class EndGroup(unittest.TestCase):
    def test_a_child_that_ignores_sigterm_ends_though_its_parent_has_ended(self):
        process = group_of("(trap '' TERM; echo ready; sleep 1000) & wait")
        processes.end_group(process, patience=0.5)
        with process:
            self.assertEqual(process.stdout.read(), "", "end of file: no process has the pipe")
        self.assertEqual(process.returncode, -signal.SIGTERM)

    def test_a_child_ends_in_order_after_its_parent(self):
        child = "trap 'sleep 0.3; echo in order; exit' TERM; echo ready; while :; do sleep 0.05; done"
        process = group_of(f"({child}) & wait")
        processes.end_group(process)
        with process:
            self.assertEqual(process.stdout.read(), "in order\n")


RUNNER = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import run_tests
run_tests.processes.OUT = pathlib.Path(sys.argv[2])
run_tests.SUITES = {"waits": ("", lambda suite: run_tests.script(suite, ["sh", "-c", sys.argv[3]], 60))}
run_tests.main(["waits"])
"""


TIMED = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import run_tests
run_tests.processes.OUT = pathlib.Path(sys.argv[2])
run_tests.SUITES = {name: ("", lambda suite: run_tests.Counts(passed=1)) for name in ("unit", "tsan")}
run_tests.TESTED.add(sys.argv[3])
run_tests.main(["unit", "tsan"])
"""


class TooLate(unittest.TestCase):
    def lines(self, minutes, tested=""):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", TIMED, SCRIPTS, folder, tested]
            env = {**os.environ, "LOCKSTEP_MINUTES": minutes}
            return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()

    def test_a_sanitizer_for_which_too_little_time_is_left_is_skipped_by_name(self):
        lines = self.lines("5")
        self.assertEqual(lines[-1], "1 passed, 0 failed, 1 skipped")
        self.assertIn("skipped tsan: 0 of 5 minutes were spent", "\n".join(lines))

    def test_a_sanitizer_of_which_some_tests_have_run_is_begun(self):
        self.assertEqual(self.lines("5", tested="tsan")[-1], "2 passed, 0 failed, 0 skipped")

    def test_with_enough_time_each_suite_runs(self):
        self.assertEqual(self.lines("60")[-1], "2 passed, 0 failed, 0 skipped")


class Killed(unittest.TestCase):
    def test_a_suite_ends_with_the_killed_runner(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/pipe")
            script = f"exec >{folder}/pipe; (echo ready; sleep 1000) & wait"
            runner = subprocess.Popen([sys.executable, "-c", RUNNER, SCRIPTS, folder, script],
                                      stdout=subprocess.DEVNULL)
            with open(f"{folder}/pipe") as pipe, runner:
                self.assertEqual(pipe.readline(), "ready\n")
                runner.kill()
                self.assertEqual(pipe.read(), "", "end of file: no process of the suite runs")


class Reports(unittest.TestCase):
    def count(self, name, text, count):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.write_text(text)
            found = count(path)
        return (found.passed, found.failed, found.skipped), found.names

    def test_of_googletest(self):
        tests = [{"name": "a", "status": "RUN"}, {"name": "b", "status": "RUN", "result": "SKIPPED"},
                 {"name": "c", "status": "RUN", "failures": [{"failure": "why\nwhere"}]},
                 {"name": "d", "status": "NOTRUN"}]
        text = json.dumps({"testsuites": [{"name": "S", "testsuite": tests}]})
        found = self.count("report.json", text, lambda path: counts.count_gtest(path.parent))
        self.assertEqual(found, ((1, 1, 1), ["skipped S.b", "FAILED  S.c: why"]))

    def test_of_pytest(self):
        cases = ('<testcase classname="m" name="a"/><testcase classname="m" name="b"><error message="why"/></testcase>'
                 '<testcase classname="m" name="c"><skipped message="no GPU"/></testcase>')
        found = self.count("report.xml", f"<testsuites>{cases}</testsuites>", counts.count_junit)
        self.assertEqual(found, ((1, 1, 1), ["FAILED  m.b: ['why']", "skipped m.c: no GPU"]))

    def test_a_report_that_is_missing_is_a_failure(self):
        missing = counts.count_junit(pathlib.Path("/nowhere/report.xml"))
        self.assertEqual((missing.passed, missing.failed), (0, 1))

    def test_of_a_program_of_its_own(self):
        for text, status, numbers in (("FAIL  x\n1 passed, 1 failed, 0 skipped\n", 1, (1, 1, 0)),
                                      ("2 passed, 0 failed, 1 skipped\n", 0, (2, 0, 1)),
                                      ("2 passed, 0 failed, 0 skipped\n", 3, (2, 1, 0)), ("Killed\n", 137, (0, 1, 0))):
            found, _ = self.count("log", text, lambda path: counts.count_lines(path, ["program"], status))
            self.assertEqual(found, numbers, text)


if __name__ == "__main__":
    unittest.main()
