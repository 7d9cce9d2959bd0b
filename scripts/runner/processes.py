"""The processes of a run: each command is the leader of a group, which ends with its command and with the run."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "tests"
PYTHON = "/usr/bin/python3"

GUARD = []  # the process that ends the suites when this one is killed
LIVE = set()  # leaders of the process groups that this run has started
STOPPING = threading.Event()


def out(name):
    """Where a file of this run is."""
    return OUT / name


def log_of(suite):
    return out(f"{suite}.log")


def begin():
    """Makes the folder of the logs, and sees to it that no process outlives this one."""
    OUT.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    # In a session of its own, which no signal to this one's process group reaches.
    GUARD.append(subprocess.Popen([ROOT / "scripts/guard.py"], stdin=subprocess.PIPE, start_new_session=True))


def group_lives(group):
    """Whether a process group has a process that is no zombie."""
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue  # it has ended meanwhile
        if int(its_group) == group and state not in "ZX":
            return True
    return False


def end_group(process, patience=30):
    """Ends a command with all processes of its group; they have 30 s to end in order, also after the command itself."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + patience
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        while time.monotonic() < end:
            process.poll()
            if not group_lives(process.pid):
                return
            time.sleep(0.05)


def tell_guard():
    """Run by a command before it starts, so that no kill of this process comes between."""
    os.write(GUARD[0].stdin.fileno(), f"group {os.getpid()}\n".encode())


def run(suite, command, deadline, env=None):
    """Runs a command with its output in the suite's log; returns its exit status (124 when it ran too long)."""
    with log_of(suite).open("ab") as stream:
        stream.write(f"$ {' '.join(map(str, command))}\n".encode())
        stream.flush()
        process = subprocess.Popen(command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   env={**os.environ, **(env or {})}, start_new_session=True,
                                   preexec_fn=tell_guard if GUARD else None)
        LIVE.add(process)
        try:
            if STOPPING.is_set():
                end_group(process)
            return process.wait(timeout=deadline)
        except subprocess.TimeoutExpired:
            end_group(process)
            stream.write(f"\nended after {deadline} s\n".encode())
            return 124
        finally:
            LIVE.discard(process)


def end_all():
    """Ends all processes of this run; no command begins afterwards."""
    STOPPING.set()
    enders = [threading.Thread(target=end_group, args=(process,)) for process in list(LIVE)]
    for ender in enders:
        ender.start()
    for ender in enders:
        ender.join()


def stop(number, _):
    """Ctrl-C and SIGTERM."""
    print(f"\nrun_tests: ended by signal {number}; ending the running suites", file=sys.stderr, flush=True)
    end_all()
    os._exit(128 + number)
