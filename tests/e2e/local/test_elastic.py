"""A gang that may run with fewer workers, under `lockstep run`: it goes on when a pod is lost, and is whole again."""

import json
import os
import re
import signal

import yaml

import e2e
import jobs
from command import Command, parent

STEPS = 700
JOB = {
    "apiVersion": "lockstep.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "few"},
    "spec": {
        "image": "none",
        "command": ["lockstep-trainer", *jobs.small_model(STEPS, "--deterministic")],
        "nodes": 3,
        "elastic": {"minNodes": 2, "stabilizationSeconds": 1},
    },
}


def started(folder, *flags):
    (folder / "job.yaml").write_text(yaml.safe_dump(JOB))
    return Command(folder, "run", "job.yaml", "--output", "run", *flags)


def digest(command):
    return e2e.trainer_result((command.folder / "run/logs/rank-0.log").read_text())["digest"]


def test_it_goes_on_without_a_lost_pod_takes_the_replacement_in_and_has_the_bits_of_an_undisturbed_run(tmp_path_factory):
    command = started(tmp_path_factory.mktemp("lost"))
    try:
        log = command.folder / "run/logs/rank-0.log"
        e2e.wait_for("step 30", lambda: log.exists() and "step 30/" in log.read_text(), deadline=60, every=0.02)
        os.kill(parent(command.worker(0)), signal.SIGKILL)  # slot 0: the others get other ranks
        assert command.wait(120) == 0, command
    finally:
        command.end()
    said = re.findall(r"^regrouped into generation (\d+) at step (\d+)$", log.read_text(), re.MULTILINE)
    assert [int(generation) for generation, _ in said] == [2, 3], (said, str(command))
    assert int(said[0][1]) < int(said[1][1]) < STEPS, "it did not train with fewer"
    status = json.loads((command.folder / "run/job.json").read_text())["status"]
    assert [attempt["cause"] for attempt in status["attempts"]] == ["PodFailed", "Completed"], status["attempts"]
    assert status["attempts"][0]["strategy"] == "Shrink" and status["attempts"][0]["firstFailingRank"] == 0
    assert status["worldSize"] == 3 and status["nodes"]["min"] == 2
    undisturbed = started(tmp_path_factory.mktemp("whole"))
    try:
        assert undisturbed.wait(120) == 0, undisturbed
    finally:
        undisturbed.end()
    assert digest(command) == digest(undisturbed)
    print(f"\nwith two of three from step {said[0][1]} to {said[1][1]}; digest {digest(command)}")
