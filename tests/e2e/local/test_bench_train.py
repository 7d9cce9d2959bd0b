"""`lockstep bench train`: a matrix is measured, survives Ctrl-C, and continues where it was."""

import contextlib
import csv
import json
import os
import re
import signal
import subprocess

import e2e
import pytest
from command import LOCKSTEP

TINY = ["bench", "train", "--model", "mlp", "--workers", "1,2", "--batch-size", "8", "--warmup-steps", "2",
        "--steps", "200", "--runs", "2"]
SPEED = re.compile(r"^(\d+)\timages/sec: [\d.]+ \+/- [\d.]+ \(jitter = [\d.]+\)\t[\d.]+$", re.MULTILINE)


@pytest.fixture
def bench(lockstep, tmp_path):
    """Runs the command into a folder that all commands of a test share."""
    return lambda *more: lockstep(*TINY, "--output", tmp_path / "bench", *more)


def test_an_interrupted_matrix_continues_with_the_cells_that_are_left(bench, tmp_path):
    folder = tmp_path / "bench"
    first = bench()
    first.until("mlp on synthetic data with 2 workers, run 1 of 2")
    first.process.send_signal(signal.SIGINT)
    assert first.wait() == 130, first
    assert "1 of 2 cells are measured; the same command continues with the rest" in first.out, first
    first.nothing_is_left()
    assert [path.name for path in (folder / "cells").iterdir()] == ["mlp-synthetic-w1.json"], first
    assert [path.name for path in (folder / "runs").iterdir()] == ["mlp-synthetic-w1"], first
    kept = (folder / "cells/mlp-synthetic-w1.json").read_bytes()

    second = bench("--trace")
    assert second.wait() == 0, second
    assert "mlp on synthetic data with 1 worker: measured before" in second.out, second
    assert (folder / "cells/mlp-synthetic-w1.json").read_bytes() == kept, second
    # The contract of tf_cnn_benchmarks, of the two runs of the cell that was left.
    assert [int(step) for step in SPEED.findall(second.out)] == 2 * list(range(10, 201, 10)), second
    assert len(re.findall(r"^-{64}\ntotal images/sec: [\d.]+\n-{64}$", second.out, re.MULTILINE)) == 2, second

    one, two = json.loads((folder / "results.json").read_text())
    assert (one["workers"], one["transport"], one["efficiency"]) == (1, "none", 1), one
    assert (two["workers"], two["transport"], two["runs"]) == (2, "shared memory", 2), two
    assert two["batchPerWorker"] == 8 and two["precision"] == "float32", two
    assert two["t1"] == one["imagesPerSecond"] > 0, (one, two)
    assert two["efficiency"] == pytest.approx(two["imagesPerSecond"] / (2 * two["t1"])), two
    assert 0 < two["exposedCommunicationPercent"] < 100, two
    assert one["busBytesPerSecond"] == 0 < two["busBytesPerSecond"] < 1e12, (one, two)
    assert all(0 < row["percentOfPeak"] < 100 for row in (one, two)), (one, two)
    # Each run was a job: 2 + 200 steps of both workers' samples.
    steps = (folder / "runs/mlp-synthetic-w2/2/metrics.jsonl").read_text().splitlines()
    assert len(steps) == 202, steps
    for cell in ("w1", "w2"):
        events = json.loads((folder / f"traces/mlp-synthetic-{cell}.json").read_text())["traceEvents"]
        assert sum(event["name"] == "backward" and event["dur"] > 0 for event in events) == 202, events
    assert "mlp, synthetic" in (folder / "scaling.svg").read_text()
    rows = list(csv.DictReader((folder / "results.csv").open()))
    assert [float(row["efficiency"]) for row in rows] == pytest.approx([1, two["efficiency"]], rel=1e-5), rows


def test_a_folder_of_other_settings_is_refused(bench, tmp_path):
    first = bench()
    assert first.wait() == 0, first
    other = bench("--threads", "2")
    assert other.wait() == 1, other
    assert "mlp-synthetic-w1.json cannot be continued: threads is 1 there, and 2 here" in other.err, other


def test_a_dry_run_measures_nothing_and_leaves_nothing(bench, tmp_path):
    dry = bench("--dry-run")
    assert dry.wait() == 0, dry
    assert not dry.err and "images/sec" not in dry.out, dry
    assert re.search(r"^mlp +synthetic +2 +[\d.]+ MiB +0:\d\d$", dry.out, re.MULTILINE), dry
    assert re.search(r"^2 cells, about 0:\d\d in all$", dry.out, re.MULTILINE), dry
    assert not (tmp_path / "bench").exists()
    assert {path.name for path in dry.folder.iterdir()} == {"stdout", "stderr"}, dry


@pytest.mark.parametrize("words, sentence", [
    (["--model", "nosuch"], "nosuch on synthetic data with 1 worker failed with exit status 64: --model: nosuch"),
    (["--model", "char-transformer"], "has no synthetic data; give --data with text files"),
    (["--output", "/proc/none"], "cannot create the folder /proc/none/cells"),
], ids=["model", "data", "output"])
def test_a_refusal_of_trainer_or_machine_is_told_before_a_cell_is_measured(lockstep, tmp_path, words, sentence):
    command = lockstep(*TINY[:2], *(["--model", "mlp"] if "--model" not in words else []), *words)
    assert command.wait() == 1, command
    assert sentence in command.err and len(command.err.splitlines()) == 1, command
    assert "run 1 of" not in command.out, command


def test_a_worker_that_ends_by_a_signal_is_a_failure_and_no_wish(bench):
    command = bench("--", "--min-step-seconds=0.1")
    command.until("mlp on synthetic data with 1 worker, run 1 of 2")

    def ended():
        worker = command.worker(0)  # the next one as well, until no restart is left
        if worker:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGQUIT)
        return command.process.poll() is not None

    e2e.wait_for("the end of the benchmark", ended, 60, every=0.05)
    assert command.wait() == 1, command
    assert "failed with exit status 131" in command.err, command


def test_a_second_interrupt_leaves_no_folder_behind(lockstep, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = lockstep(*TINY, "--dry-run", "--", "--min-step-seconds=60", env={"TMPDIR": str(scratch)})
    e2e.wait_for("the worker", lambda: command.worker(0), 60, every=0.05)
    command.process.send_signal(signal.SIGINT)
    command.process.send_signal(signal.SIGTERM)  # two of one kind may arrive as one
    assert command.wait() == 143, command
    command.nothing_is_left()
    assert not list(scratch.iterdir()), command


def test_a_full_standard_output_is_a_failure(tmp_path):
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([LOCKSTEP, *TINY, "--dry-run"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE,
                               timeout=60)
    assert ended.returncode == 1, ended
    assert b"standard output takes no more" in ended.stderr, ended
