"""scripts/run_tests.py: how it ends a suite."""

import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/run_tests.py"
run_tests = importlib.util.module_from_spec(importlib.util.spec_from_file_location("run_tests", SCRIPT))
run_tests.__spec__.loader.exec_module(run_tests)


def group_of(script):
    """A shell with a child in its process group, when the child has said that it is ready."""
    process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    process.stdout.readline()
    return process


class EndGroup(unittest.TestCase):
    def test_a_child_that_ignores_sigterm_ends_though_its_parent_has_ended(self):
        process = group_of("(trap '' TERM; echo ready; sleep 1000) & wait")
        run_tests.end_group(process, patience=0.5)
        with process:
            self.assertEqual(process.stdout.read(), "", "end of file: no process has the pipe")
        self.assertEqual(process.returncode, -signal.SIGTERM)

    def test_a_child_ends_in_order_after_its_parent(self):
        child = "trap 'sleep 0.3; echo in order; exit' TERM; echo ready; while :; do sleep 0.05; done"
        process = group_of(f"({child}) & wait")
        run_tests.end_group(process)
        with process:
            self.assertEqual(process.stdout.read(), "in order\n")


RUNNER = """
import importlib.util, pathlib, sys, threading
run_tests = importlib.util.module_from_spec(importlib.util.spec_from_file_location("run_tests", sys.argv[1]))
run_tests.__spec__.loader.exec_module(run_tests)
run_tests.OUT = pathlib.Path(sys.argv[2])
run_tests.SUITES = {"waits": ("", lambda suite: run_tests.script(suite, ["sh", "-c", sys.argv[3]], 60))}
run_tests.main(["waits"])
"""


class Killed(unittest.TestCase):
    def test_a_suite_ends_with_the_killed_runner(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/pipe")
            script = f"exec >{folder}/pipe; (echo ready; sleep 1000) & wait"
            runner = subprocess.Popen([sys.executable, "-c", RUNNER, SCRIPT, folder, script],
                                      stdout=subprocess.DEVNULL)
            with open(f"{folder}/pipe") as pipe, runner:
                self.assertEqual(pipe.readline(), "ready\n")
                runner.kill()
                self.assertEqual(pipe.read(), "", "end of file: no process of the suite runs")


if __name__ == "__main__":
    unittest.main()
