"""Agents of the commit in BASELINE under this coordinator: pods that live through an upgrade of the operator keep
theirs."""

import copy
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "e2e/local")]
import e2e  # noqa: E402
import jobs  # noqa: E402
from command import Command  # noqa: E402

STEPS, KILL_AT = 60, 20
JOB = jobs.on_this_machine("older", "lockstep-trainer", *jobs.small_model(STEPS, jobs.pace(0.05)), nodes=3,
                           checkpoint={"path": "/checkpoints"})


@pytest.fixture(scope="module")
def agent():
    """The agent of the baseline."""
    built = subprocess.run([HERE / "programs.sh"], capture_output=True, text=True, timeout=1500)
    if built.returncode == 3:
        pytest.skip(built.stderr.strip())
    assert built.returncode == 0, built.stderr
    return pathlib.Path(built.stdout.strip()) / "lockstep-agent"


@pytest.fixture
def older(agent, tmp_path):
    """`lockstep run` as it is, beside an agent of the baseline."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("lockstep", "lockstep-trainer"):
        shutil.copy(e2e.BUILD / "bin" / name, programs)
    shutil.copy(agent, programs / "lockstep-agent")
    job = copy.deepcopy(JOB)
    job["spec"]["command"].append(f"--ledger={tmp_path / 'ledger'}")
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    commands = []

    def start(*flags):
        commands.append(Command(tmp_path, "run", "job.yaml", "--output", "run", *flags, program=programs / "lockstep"))
        return commands[-1]

    yield start
    for command in commands:
        command.end()


def digest(path):
    try:
        return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    except OSError:
        return None  # the process ended meanwhile


def runs(command, program):
    """How many processes of the command run that very program."""
    return sum(digest(f"/proc/{pid}/exe") == digest(program) for pid in command.processes()
               if os.path.basename(os.path.realpath(f"/proc/{pid}/exe")).startswith("lockstep-agent"))


def test_agents_of_the_baseline_form_their_gang_again_after_a_kill(older, agent):
    command = older("--kill-worker", f"1@{KILL_AT}")
    e2e.wait_for("three agents of the baseline", lambda: runs(command, agent) == 3, 30)
    assert command.wait(50) == 0, command
    assert re.search(r"^generation 1 ended: ProcessSignal, rank 1", command.out, re.MULTILINE), command
    assert re.search(r"^older succeeded after \d+:\d\d with 1 restart$", command.out, re.MULTILINE), command
    paths = [command.folder / f"run/logs/rank-{rank}.log" for rank in range(3)]
    logs = [path.read_text() if path.exists() else "" for path in paths]  # who says nothing has no log
    assert "regrouped into generation 2" in logs[0], logs
    assert "received the state of step" in logs[1], logs
    ledgers = e2e.Ledgers(command.folder / "ledger").read()
    assert ledgers.survivors() == [0, 2] and len(ledgers.commits()) == 4, "a survivor was restarted"
    command.nothing_is_left()


def test_agents_of_the_baseline_keep_their_gang_while_nothing_fails(older, agent):
    command = older()
    e2e.wait_for("three agents of the baseline", lambda: runs(command, agent) == 3, 30)
    assert command.wait(50) == 0, command
    assert re.search(r"^older succeeded after \d+:\d\d$", command.out, re.MULTILINE), command
    command.nothing_is_left()
