"""The disk that stalls (stalling_disk.py) leaves neither a mount nor a loop device, even if its test is killed."""

import os
import pathlib
import subprocess
import sys

import e2e
import pytest

HOLDER = """
import pathlib, sys
from stalling_disk import StallingDisk
disk = StallingDisk(pathlib.Path(sys.argv[1]))
disk.begin_stall(1)
print("stalls", flush=True)
input()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a disk that can stall")
def test_a_stalled_disk_is_thawed_and_unmounted_after_a_killed_test(tmp_path):
    def held():
        mounts = pathlib.Path("/proc/self/mounts").read_text()
        return f" {tmp_path}/disk " in mounts or f"({tmp_path}/disk.img" in e2e.run("losetup", "--all").stdout

    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
    with holder:
        assert holder.stdout.readline() == "stalls\n" and held()
        holder.kill()
    e2e.wait_for("nothing is left of the disk", lambda: not held(), 20)
