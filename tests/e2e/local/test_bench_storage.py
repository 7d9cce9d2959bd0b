"""`lockstep bench storage`: both forms of the data on each store, measured once."""

import csv
import json
import os
import signal

import e2e

TINY = ["bench", "storage", "--images", "40", "--size", "16", "--seconds", "0.01", "--runs", "2", "--loaders", "1,2",
        "--nfs-latency-ms", "0.1", "--object-latency-ms", "0.2"]


def test_each_cell_is_measured_once_and_stands_beside_its_bound(lockstep, tmp_path):
    folder = tmp_path / "storage"
    first = lockstep(*TINY, "--output", folder)
    assert first.wait() == 0, first
    first.nothing_is_left()
    rows = json.loads((folder / "results.json").read_text())
    assert len(rows) == 1 + 5 * 2 * 2, rows
    for row in rows:
        assert row["imagesPerSecond"] > 0 and row["runs"] == 2, row
        assert (row["bound"] is None) == (row["store"] == "synthetic"), row
        assert row["store"] != "memory" or row["ratio"] == 1, row
    assert len(list(csv.DictReader((folder / "results.csv").open()))) == len(rows)
    assert "object, files" in (folder / "storage.svg").read_text()
    assert "STORE        FORM     LOADERS  IMAGES/SEC" in first.out, first

    (folder / "cells/nfs-files-l2.json").unlink()
    second = lockstep(*TINY, "--output", folder)
    assert second.wait() == 0, second
    assert second.out.count("measured before") == len(rows) - 1, second
    assert second.out.count("files on nfs, 2 loaders, run ") == 2, second

    other = lockstep(*TINY, "--output", folder, "--nfs-bandwidth-mib", "9")
    assert other.wait() == 1, other
    assert "bandwidthMib is 1000.0 there, and 9.0 here; choose another --output" in other.err, other


def test_a_dry_run_measures_nothing(lockstep, tmp_path):
    command = lockstep(*TINY, "--output", tmp_path / "storage", "--dry-run")
    assert command.wait() == 0, command
    assert "21 cells, 0:00 in all, and the time to make 40 images of 16 x 16 pixels" in command.out, command
    assert not (tmp_path / "storage").exists()


def test_ctrl_c_leaves_no_part_of_a_data_set(lockstep, tmp_path):
    folder = tmp_path / "storage"
    command = lockstep("bench", "storage", "--images", "1000000", "--size", "32", "--output", folder)

    def parts():
        return list(folder.glob("data/*.partial-*"))

    e2e.wait_for("a part of the data set", lambda: parts() or command.process.poll() is not None, 60, every=0.02)
    assert parts(), command
    os.killpg(command.process.pid, signal.SIGINT)  # as a terminal does
    assert command.wait() == -signal.SIGINT, command
    command.nothing_is_left(deadline=30)
    assert parts() == [], command
