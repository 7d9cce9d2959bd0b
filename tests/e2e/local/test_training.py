"""A small language model under `lockstep run` without a terminal: its output, its files, and its bits."""

import copy
import json
import os
import re
import xml.etree.ElementTree as ElementTree

import pytest
import yaml

import e2e
import jobs
from command import Command

STEPS, KILL_AT = 80, 30
PACE = jobs.pace(0.05)  # the launcher hears of steps once a second, and the kill is to be there in time
JOB = jobs.on_this_machine(
    "small", "lockstep-trainer",
    *jobs.small_model(STEPS, "--generate=80", "--eval-every=20", "--checkpoint-every-steps=10", PACE),
    nodes=3, checkpoint={"path": "/checkpoints"})


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Runs the job to its end and hands out the command; `flags` are those of `lockstep run`."""
    commands = []

    def start(*flags):
        folder = tmp_path_factory.mktemp("training")
        job = copy.deepcopy(JOB)
        job["spec"]["command"].append(f"--ledger={folder / 'ledger'}")
        (folder / "job.yaml").write_text(yaml.safe_dump(job))
        command = Command(folder, "run", "job.yaml", "--output", "run", "--deterministic", *flags)
        commands.append(command)
        assert command.wait(180) == 0, command
        command.nothing_is_left()
        return command

    yield start
    for command in commands:
        command.end()


@pytest.fixture(scope="module")
def killed(train):
    """A run of which rank 1 was killed on the way."""
    return train("--kill-worker", f"1@{KILL_AT}")


def result(command):
    """The last line of the trainer: what it ended with, and the digest of parameters and optimizer state."""
    return e2e.trainer_result((command.folder / "run/logs/rank-0.log").read_text())


def test_progress_is_plain_lines_when_stdout_is_no_terminal(killed):
    assert "\x1b" not in killed.out and "\r" not in killed.out
    progress = [line for line in killed.out.splitlines()
                if re.match(r"(Running|Restarting|Succeeded) +step \d+/80  loss \d", line)]
    assert progress and progress[-1].startswith("Succeeded   step 80/80"), killed
    assert f"the process of rank 1 will be killed at step {KILL_AT}, as asked\n" in killed.out, killed
    said = re.search(r"^killed rank 1 \(process \d+, pod small-\w+-1-1\) at step (\d+), as asked$", killed.out,
                     re.MULTILINE)
    assert said and KILL_AT <= int(said[1]) < STEPS, killed
    assert re.search(r"^generation 1 ended: ProcessSignal, rank 1: rank 1 was ended by SIGKILL$", killed.out,
                     re.MULTILINE), killed


def test_it_ends_with_loss_curve_sample_attempts_and_where_everything_is(killed):
    curve, rest = killed.out.split("\nloss\n", 1)[1].split("\n\nheld-out loss ", 1)
    assert "step 80" in curve and len(curve.splitlines()) >= 10, curve
    first, last = re.match(r"(\S+) at step 0, (\S+) at step 80\n", rest).groups()
    assert float(last) < float(first) - 0.5, "it learned nothing"
    sample = re.search(r"\nsample\n((?:  .*\n)+)", rest)[1]
    assert len(sample.replace("\n  ", "\n").strip()) >= 40, sample
    rows = rest[rest.index("GENERATION"):].split("\n\n")[0].splitlines()
    assert rows[1].split()[:4] == ["1", "ProcessSignal", "1", "137"] and "InPlace" in rows[1], rows
    assert re.search(r" \d+ ms ", rows[1]), rows
    assert rows[2].split()[:2] == ["2", "Completed"] and len(rows) == 3, rows
    assert re.search(r"^small succeeded after \d+:\d\d with 1 restart$", rest, re.MULTILINE), rest
    run = killed.folder / "run"
    for what, path in (("logs", run / "logs"), ("checkpoints", run / "checkpoints"), ("loss curve", run / "loss.svg"),
                       ("every step", run / "metrics.jsonl"), ("status", run / "job.json")):
        assert re.search(rf"^{what} +{re.escape(str(path))}$", rest, re.MULTILINE), rest
        assert path.exists(), path
    print("\n" + killed.out[killed.out.index("\nheld-out"):])


def test_the_loss_curve_is_xml_with_a_line_in_it(killed):
    root = ElementTree.parse(killed.folder / "run/loss.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    longest = max(len(path.get("d", "") + path.get("points", "")) for path in root.iter())
    assert longest > 5 * STEPS, "no line that could have a point per step"


def test_checkpoints_and_steps_are_where_it_says(killed):
    manifests = sorted((killed.folder / "run/checkpoints").glob("step-*.g*/manifest.json"))
    newest = {int(path.parent.name.split("-")[1].split(".")[0]): path.parent.name for path in manifests}
    assert newest[STEPS] == f"step-{STEPS}.g2", newest
    steps = [json.loads(line) for line in (killed.folder / "run/metrics.jsonl").read_text().splitlines()]
    assert {line["step"] for line in steps if line["kind"] == "step"} == set(range(1, STEPS + 1))


def test_a_killed_run_has_the_bits_of_an_undisturbed_one(killed, train):
    paths = [killed.folder / f"run/logs/rank-{rank}.log" for rank in range(3)]
    logs = [path.read_text() if path.exists() else "" for path in paths]  # who says nothing has no log
    assert result(killed)["generation"] == 2, killed
    step = re.search(r"^regrouped into generation 2 at step (\d+)$", logs[0], re.MULTILINE)
    assert step and f"received the state of step {step[1]} from rank " in logs[1], logs
    assert not any("restored" in log for log in logs), "a survivor lost its memory"
    ledgers = e2e.Ledgers(killed.folder / "ledger").read()
    assert ledgers.survivors() == [0, 2] and len(ledgers.commits()) == 4, "a survivor began anew"
    undisturbed = result(train())
    assert undisturbed["generation"] == 1
    assert result(killed)["digest"] == undisturbed["digest"]
    print(f"\ndigest {undisturbed['digest']}")


def test_so_has_a_run_of_another_size_and_transport(killed, train):
    other = train("--workers", "2", "--", "--transport=tcp")
    assert "2 ranks, generation 1, TCP to rank 1" in (other.folder / "run/logs/rank-0.log").read_text()
    assert "3 ranks, generation 1, shared memory to rank 1" in (killed.folder / "run/logs/rank-0.log").read_text()
    assert result(other)["digest"] == result(killed)["digest"]


def test_json_is_one_object_per_line_and_ends_with_the_result(train):
    command = train("--json", "--workers", "1", "--", "--steps=20")
    lines = [json.loads(line) for line in command.out.splitlines()]
    assert all(isinstance(line, dict) for line in lines)
    assert lines[-1]["result"]["exitStatus"] == 0 and lines[-1]["result"]["folder"] == str(command.folder / "run")
    assert lines[-1]["result"]["job"]["status"]["state"] == "Succeeded"


def test_quiet_prints_nothing(train):
    command = train("--quiet", "--workers", "1", "--", "--steps=5")
    assert command.out == "" and command.err == "", command


def test_a_job_with_gpus_says_what_this_machine_does_instead(tmp_path):
    small = ("--image-size=32", "--batch-size=8", "--micro-batch-size=2", "--eval-samples=8", "--steps=1")
    here = ("--backend=cpu", "--precision=fp32", "--transport=auto")
    command = Command(tmp_path, "run", e2e.ROOT / "examples/gpu.yaml", "--output", "run", "--", *here, *small)
    assert command.wait(120) == 0, command
    instead = "assigns no GPUs" if any(map(os.path.exists,
                                           ("/dev/nvidiactl", "/dev/kfd"))) else "this machine has no GPU"
    assert re.search(rf"^spec\.gpusPerNode is 2.*{instead}", command.out, re.MULTILINE), command
