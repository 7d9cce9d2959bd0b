"""Ranks that hang: the right one is named and ended, its stack is in the attempt, and no slow rank is ended.

LOCKSTEP_HANG_ROUNDS: how often each kind of hang is tried (2; `make soak`: 20).
LOCKSTEP_QUIET_SECONDS: how long a job trains beside other work and a disk that stalls, without losing a member
(15; `make soak`: 3600).
"""

import collections
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest
import yaml

import e2e
import jobs
from stalling_disk import StallingDisk

WORKER = e2e.BUILD / "tests/bin/hanging_worker"
ROUNDS = int(os.environ.get("LOCKSTEP_HANG_ROUNDS", "2"))
QUIET_SECONDS = float(os.environ.get("LOCKSTEP_QUIET_SECONDS", "15"))
STALL = 4  # seconds for which a disk does not answer: longer than a silence that costs a member
KINDS = ("computing", "loading", "reduce-scatter", "all-gather", "skipping")


def job(name, *command, progress=None, **spec):
    made = jobs.trainer(name, nodes=2, procs=2, restart={"maxRestarts": 1000}, **spec)
    made["spec"]["command"] = [str(word) for word in command]
    if progress is not None:
        made["spec"]["deadlines"] = {"progressSeconds": progress}
    return made


def ended(command):
    """(cause, rank, sentence) of each generation that has ended."""
    return re.findall(r"^generation \d+ ended: (\w+), rank (\d+): (.*)$", command.out, re.MULTILINE)


def attempts(command):
    return json.loads((command.folder / "run/job.json").read_text())["status"]["attempts"]


def table(rows):
    print("\n" + "\n".join(f"{kind:16} named {good} of {tries}" for kind, (good, tries) in rows.items()))


def test_the_rank_that_hangs_is_named_wherever_it_hangs(run, tmp_path):
    seed = int(os.environ.get("LOCKSTEP_SEED", time.time_ns() % 1_000_000))
    draw = random.Random(seed)
    places = tmp_path / "places"
    places.mkdir()
    command = run(job("hangs", WORKER, progress=2), env={"HANG_FOLDER": str(places)})
    named, seconds, wrong = {}, [], []
    for kind in KINDS:
        good = 0
        for _ in range(ROUNDS):
            before, rank = len(ended(command)), draw.randrange(4)
            place = places / str(rank)
            (places / "new").write_text(kind)
            (places / "new").rename(place)
            e2e.wait_for(f"rank {rank} to take its place", lambda place=place: not place.exists(), deadline=60,
                         every=0.01)
            begun = time.monotonic()
            e2e.wait_for("the end of the generation", lambda before=before: len(ended(command)) > before, deadline=90,
                         every=0.02)
            seconds.append(time.monotonic() - begun)
            cause, who, sentence = ended(command)[before]
            assert f"hangs: {kind}\n" in (command.folder / f"run/logs/rank-{rank}.log").read_text(), \
                "it was to hang there"
            right = cause == "Hang" and int(who) == rank and ("sleeps" if kind == "skipping"
                                                              else "is stopped (state T)") in sentence
            good += right
            if not right:
                wrong.append((kind, rank, ended(command)[before]))
        named[kind] = (good, ROUNDS)
    table(named)
    print(f"{min(seconds):.1f} to {max(seconds):.1f} s from the hang to its end, with progressSeconds: 2; "
          f"LOCKSTEP_SEED={seed}")
    for kind, (good, tries) in named.items():
        assert good * 20 >= tries * 19, (kind, wrong, str(command))
    command.process.send_signal(signal.SIGTERM)  # the job's status is written at its end
    command.wait(60)
    last = next(attempt for attempt in reversed(attempts(command)) if attempt["cause"] == "Hang")
    assert last["exitCode"] == 134 and last["counted"], last
    assert re.search(r"aborted by SIGABRT; the thread that trains is at\n( *#\d+ .+\n){2,}",
                     last["message"]), last["message"]
    assert "wait for it" in last["message"].splitlines()[0], last["message"]
    print(f"the last attempt says\n{last['message']}")


def test_a_stopped_trainer_is_replaced_and_the_others_keep_their_memory(run):
    """Stopped at a random moment of its training, twice over; the result is that of an undisturbed run."""
    model = jobs.small_model(400, "--deterministic")
    undisturbed = run(job("whole", "lockstep-trainer", *model))
    assert undisturbed.wait(240) == 0, undisturbed
    command = run(job("stopped", "lockstep-trainer", *model, jobs.pace(0.01), progress=2))
    log = command.folder / "run/logs/rank-0.log"
    places = collections.Counter()
    for step, rank in ((30, 1), (150, 3)):
        e2e.wait_for(f"step {step}", lambda step=step: log.exists() and f"step {step}/" in log.read_text(),
                     deadline=120, every=0.02)
        before = len(ended(command))
        os.kill(command.worker(rank), signal.SIGSTOP)
        e2e.wait_for("the end of the generation", lambda before=before: len(ended(command)) > before, deadline=60,
                     every=0.02)
        cause, who, sentence = ended(command)[before]
        assert (cause, int(who)) == ("Hang", rank), str(command)
        places[re.search(r"last seen (?:inside the )?([\w -]+?)(?: of| for| after|,|;)", sentence)[1]] += 1
    assert command.wait(240) == 0, command
    text = log.read_text()
    said = re.findall(r"^regrouped into generation (\d+) at step (\d+)$", text, re.MULTILINE)
    assert [int(generation) for generation, _ in said] == [2, 3], said
    reference = (undisturbed.folder / "run/logs/rank-0.log").read_text()
    assert e2e.trainer_result(text)["digest"] == e2e.trainer_result(reference)["digest"]
    message = attempts(command)[0]["message"]
    assert "lockstep::trainer::" in message, message  # frames further out may have no room left
    assert all(attempt["strategy"] == "InPlace" for attempt in attempts(command)[:2]), attempts(command)
    print(f"\nstopped {dict(places)}\n{message}")


@pytest.fixture
def stalling_disk(tmp_path):
    """A file system of its own, and a function that stalls it: each write waits for that many seconds."""
    disk = StallingDisk(tmp_path)
    yield disk.folder, disk.stall
    disk.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a disk that can stall")
def test_nobody_is_lost_beside_busy_cores_and_a_disk_that_stalls(lockstep, stalling_disk, tmp_path):
    disk, stall = stalling_disk
    file = tmp_path / "busy.yaml"
    file.write_text(yaml.safe_dump(job("busy", "lockstep-trainer",
                                       *jobs.small_model(1_000_000, "--eval-every=200", "--checkpoint-every-steps=200"),
                                       checkpoint={"path": "/checkpoints"})))
    command = lockstep("run", file, "--output", disk / "run")
    log = disk / "run/logs/rank-0.log"
    e2e.wait_for("step 10", lambda: log.exists() and "step 10/" in log.read_text(), deadline=120)
    spin = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass\n"
    others = [e2e.ends_with_us(subprocess.Popen([sys.executable, "-c", spin, str(QUIET_SECONDS)]))
              for _ in range(os.cpu_count() or 1)]
    begun, stalls = time.monotonic(), 0
    try:
        while time.monotonic() + STALL < begun + QUIET_SECONDS:
            stall(STALL)
            stalls += 1
            step = newest_step(log)
            e2e.wait_for("training goes on", lambda step=step: newest_step(log) > step, deadline=60)
            # Undisturbed meanwhile.
            time.sleep(max(0, min(begun + 3 * STALL * stalls, begun + QUIET_SECONDS) - time.monotonic()))
        for other in others:
            assert other.wait(QUIET_SECONDS + 60) == 0
        assert command.process.poll() is None, command
        assert ended(command) == [], str(command)
        print(f"\n{QUIET_SECONDS:.0f} s with {len(others)} busy processes beside 4 ranks and a disk that stalled "
              f"{stalls} times for {STALL} s: nobody was lost, {newest_step(log)} steps")
        assert stalls > 0
    finally:
        for other in others:
            if other.poll() is None:
                other.kill()
            other.wait()
    command.process.send_signal(signal.SIGTERM)
    command.wait(60)


def newest_step(log):
    return int(re.findall(r"step (\d+)/", log.read_text())[-1])
