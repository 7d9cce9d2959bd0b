"""The second way to the API server (way.py) leaves no rule on the host, also when its test is killed."""

import os
import subprocess
import sys

import e2e

HOLDER = """
import way
held = way.Way("https://127.0.0.1:6443")
with held.cut():
    print(held.table, flush=True)
    input()
"""


def tables():
    return e2e.run("nft", "list", "tables").stdout


def test_the_rules_end_with_a_killed_test():
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
    table = holder.stdout.readline().strip()
    assert f"table ip {table}\n" in tables()
    holder.kill()
    holder.wait(10)
    e2e.wait_for("the kernel has removed the table", lambda: f"table ip {table}\n" not in tables(), 10)
