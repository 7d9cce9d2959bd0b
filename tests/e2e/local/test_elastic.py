"""An elastic gang under `lockstep run`: it trains on without a lost pod, and becomes whole again."""

import json
import os
import re
import signal

import pytest
import yaml

import e2e
import jobs
from command import Command, parent

STEPS = 700
JOB = jobs.trainer("few", *jobs.small_model(STEPS, "--deterministic", jobs.pace(0.012)),
                   elastic={"minNodes": 2, "stabilizationSeconds": 1})


@pytest.fixture(scope="module")
def run_to_the_end(tmp_path_factory):
    """Runs the job and hands out the command; `disturb` is called once it has made some steps."""
    def run(disturb=None):
        folder = tmp_path_factory.mktemp("few")
        (folder / "job.yaml").write_text(yaml.safe_dump(JOB))
        command = Command(folder, "run", "job.yaml", "--output", "run")
        try:
            log = folder / "run/logs/rank-0.log"
            e2e.wait_for("step 30", lambda: log.exists() and "step 30/" in log.read_text(), deadline=60, every=0.02)
            if disturb:
                disturb(command)
            assert command.wait(120) == 0, command
            command.nothing_is_left()
        finally:
            command.end()
        return command

    return run


def result(command):
    return e2e.trainer_result((command.folder / "run/logs/rank-0.log").read_text())


@pytest.fixture(scope="module")
def digest(run_to_the_end):
    """Of the state at the end of an undisturbed run."""
    return result(run_to_the_end())["digest"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "told_to_end"])
def test_it_trains_without_a_lost_pod_and_with_its_successor_identically(run_to_the_end, digest, number):
    # Slot 0: the others get other ranks.
    command = run_to_the_end(lambda command: os.kill(parent(command.worker(0)), number))
    log = (command.folder / "run/logs/rank-0.log").read_text()
    said = re.findall(r"^regrouped into generation (\d+) at step (\d+)$", log, re.MULTILINE)
    assert len(said) == 2 and int(said[0][0]) < int(said[1][0]), (said, str(command))
    assert int(said[0][1]) < int(said[1][1]) < STEPS, "it did not train with fewer"
    assert ("left after step " + said[0][1] in log) == (number == signal.SIGTERM), log
    status = json.loads((command.folder / "run/job.json").read_text())["status"]
    assert [attempt["cause"] for attempt in status["attempts"]] == ["PodFailed", "Completed"], status["attempts"]
    assert status["attempts"][0]["firstFailingRank"] == 0
    assert status["worldSize"] == 3 and status["nodes"]["min"] == 2
    assert result(command)["digest"] == digest
    print(f"\nwith two of three from step {said[0][1]} to {said[1][1]}; digest {digest}")


def test_survivors_of_a_process_continue_at_once_and_a_new_one_joins_later(run_to_the_end, digest):
    # Slot 1: the log of rank 0 is one process's from the first step to the last.
    command = run_to_the_end(lambda command: os.kill(command.worker(1), signal.SIGKILL))
    log = (command.folder / "run/logs/rank-0.log").read_text()
    said = re.findall(r"^regrouped into generation \d+ at step (\d+)$", log, re.MULTILINE)
    assert len(said) == 2, (said, str(command))
    assert int(said[0]) < int(said[1]) < STEPS, "it did not train with fewer"
    steps = [int(step) for step in re.findall(r"^step (\d+)/", log, re.MULTILINE)]
    assert steps == sorted(set(steps)), "a step was interrupted for the one that joined, and done again"
    status = json.loads((command.folder / "run/job.json").read_text())["status"]
    assert [attempt["cause"] for attempt in status["attempts"]] == ["ProcessSignal", "Completed"], status["attempts"]
    assert status["worldSize"] == 3
    pods = re.findall(r"\bpod ([\w-]+)", str(status["attempts"][0]))
    assert not [pod for pod in pods if pod.endswith("-2")], "no pod was recreated"
    assert result(command)["digest"] == digest
    print(f"\nwith two of three from step {said[0]} to {said[1]}")
