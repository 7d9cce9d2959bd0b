"""Ctrl-C and `kill -9` of any part: no process of a run stays behind."""

import os
import pathlib
import pty
import signal
import subprocess
import sys
import time

import pytest
import yaml

import e2e
import jobs
from command import LOCKSTEP, listening, marked, parent

STUBBORN = "trap '' TERM INT HUP; echo up; while :; do sleep 1; done"


@pytest.fixture
def running(run):
    """A run whose ranks are up, with the ports that its processes listen on."""
    def start(script, nodes=2):
        command = run(jobs.shell("stopped", script, nodes=nodes, image="none", podTemplate={}), "--logs")
        for rank in range(nodes):
            command.until(f"[{rank}] up")
        ports = listening(command.processes())
        assert ports, "the coordinator listens on no port: what this test looks at has moved"
        return command, ports

    return start


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_everything_at_once(running, timed, number):
    command, ports = running("trap 'echo asked to end; exit 0' TERM; echo up; while :; do sleep 0.05; done", nodes=3)
    timed()
    command.process.send_signal(number)
    assert command.wait(20) == 128 + number, command
    seconds = timed()
    assert "stopped was stopped after" in command.out, command
    for rank in range(3):
        assert f"[{rank}] asked to end" in command.out, command
    command.nothing_is_left(ports)
    assert seconds < 3, f"processes that end when they are asked to took {seconds:.1f} s"
    print(f"\n{number.name}: {seconds:.2f} s")


def test_after_one_ctrl_c_stubborn_processes_have_three_seconds(running, timed):
    command, ports = running(STUBBORN)
    timed()
    command.process.send_signal(signal.SIGINT)
    assert command.wait(20) == 130, command
    seconds = timed()
    command.nothing_is_left(ports)
    assert 2.5 < seconds < 8, f"{seconds:.1f} s"
    print(f"\nSIGINT, processes that ignore SIGTERM: {seconds:.2f} s")


def test_a_second_ctrl_c_does_not_wait(running, timed):
    command, ports = running(STUBBORN)
    command.process.send_signal(signal.SIGINT)
    command.until("a second Ctrl-C ends them now")
    timed()
    command.process.send_signal(signal.SIGINT)
    assert command.wait(20) == 130, command
    seconds = timed()
    command.nothing_is_left(ports)
    assert seconds < 2, f"{seconds:.1f} s"
    print(f"\nsecond SIGINT: {seconds:.2f} s")


def test_ctrl_c_before_the_first_worker_runs(run):
    command = run(jobs.shell("early", STUBBORN, nodes=2, image="none", podTemplate={}))
    command.until("2 workers on this machine")
    command.process.send_signal(signal.SIGINT)
    assert command.wait(20) == 130, command
    command.nothing_is_left()


def test_ctrl_c_while_it_waits_to_restart(run, timed):
    command = run(jobs.shell("again", "exit 9", image="none", podTemplate={},
                             restart={"backoff": {"initialSeconds": 30, "maxSeconds": 30}}))
    command.until("generation 2 ended")
    timed()
    command.process.send_signal(signal.SIGINT)
    assert command.wait(20) == 130, command
    assert timed() < 3
    command.nothing_is_left()


def test_ctrl_c_at_a_terminal_reaches_the_job_once(lockstep, tmp_path):
    # The terminal sends SIGINT to everything in front. Twice would be the second Ctrl-C: no time to end.
    path = tmp_path / "terminal.yaml"
    path.write_text(yaml.safe_dump(jobs.shell(
        "terminal", "trap 'sleep 1; echo had time; exit 0' TERM; echo up; while :; do sleep 0.05; done", image="none",
        podTemplate={})))
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(LOCKSTEP, ["lockstep", "run", str(path), "--output", "run", "--logs"])
    shown = b""
    sent = False
    end = time.monotonic() + 60
    try:
        while time.monotonic() < end:
            try:
                shown += os.read(terminal, 4096)
            except OSError:
                break  # the other side is closed: it ended
            if not sent and b"[0] up" in shown:
                os.write(terminal, b"\x03")
                sent = True
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130, shown.decode()
    assert "[0] had time" in shown.decode(), shown.decode()


DAEMON = "setsid sh -c 'sleep 100 & sleep 100' & " + STUBBORN  # with a session of its own, and soon without a parent


def test_kill_9_of_lockstep_ends_its_children(running, timed):
    command, ports = running(DAEMON)
    timed()
    command.process.kill()
    assert command.wait() == -signal.SIGKILL
    command.nothing_is_left(ports, deadline=10)
    print(f"\nkill -9 of the guard: nothing left after {timed():.2f} s")


def test_kill_9_of_the_session_behind_it_ends_its_children_and_is_told(running, timed):
    command, ports = running(DAEMON)
    session = next(pid for pid in command.processes() if parent(pid) == command.process.pid)
    timed()
    os.kill(session, signal.SIGKILL)
    assert command.wait(20) == 128 + signal.SIGKILL, command
    assert "the launcher was ended by signal 9" in command.err, command
    command.nothing_is_left(ports)
    print(f"\nkill -9 of the session: {timed():.2f} s")


def test_kill_9_of_an_agent_is_the_loss_of_a_pod_with_its_worker(running, run):
    command, _ = running(DAEMON)
    worker = command.worker(1)
    os.kill(parent(worker), signal.SIGKILL)
    e2e.wait_for("the worker is gone", lambda: worker not in command.processes(), deadline=5, every=0.02)
    command.until("restarts 1")
    again = e2e.wait_for("rank 1 is back", lambda: command.worker(1), deadline=30, every=0.02)
    assert again != worker
    command.process.send_signal(signal.SIGINT)
    assert command.wait(20) == 130, command
    command.nothing_is_left()


KILLED_TEST = """
import pathlib, sys
from command import Command
command = Command(pathlib.Path(sys.argv[1]), "run", "job.yaml", "--output", "run", "--logs")
command.until("[0] up")
print(command.mark, flush=True)
sys.stdin.read()
"""


def test_what_a_test_started_ends_with_it_even_when_it_is_killed(tmp_path):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(jobs.shell("left", "echo up; sleep 1000", nodes=1, image="none",
                                                                 podTemplate={})))
    test = subprocess.Popen([sys.executable, "-c", KILLED_TEST, tmp_path], text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, cwd=pathlib.Path(__file__).parent,
                            env={**os.environ, "PYTHONPATH": ".:.."})
    with test:
        mark = test.stdout.readline().strip()
        assert len(marked(mark)) >= 3, "the command, its agent and the worker"
        test.kill()
    e2e.wait_for("all of it ends", lambda: not marked(mark), 15, every=0.02)
