"""e2e.ends_with_us(): nothing that a test has started outlives a killed test."""

import os
import pathlib
import subprocess
import sys

import e2e

HOLDER = """
import subprocess, threading
import e2e

def start(*words, **how):
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **how)

started = []
script = "sleep 1000 & echo $!; wait"
threads = [threading.Thread(target=lambda: started.append(e2e.ends_with_us(start("sleep", "1000")))),
           threading.Thread(target=lambda: started.append(
               e2e.ends_with_us(start("sh", "-c", script, start_new_session=True), "group")))]
for thread in threads:
    thread.start()
    thread.join()
alone, group = started
print(alone.pid, group.pid, group.stdout.readline().strip(), flush=True)
input()
"""


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_what_threads_of_a_test_started_ends_with_the_killed_test():
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
    with holder:
        pids = holder.stdout.readline().split()
        assert len(pids) == 3 and all(map(runs, pids)), "they run on after their threads"
        holder.kill()
    e2e.wait_for("all of it ends", lambda: not any(map(runs, pids)), 15, every=0.02)
