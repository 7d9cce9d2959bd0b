"""Each `lockstep` command of a test runs in a folder of its own, and nothing of it outlives the test."""

import pathlib
import sys
import time

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command import Command  # noqa: E402


@pytest.fixture
def lockstep(tmp_path):
    """Starts `lockstep` with the words given; whatever becomes of the test, nothing runs after it."""
    commands = []

    def start(*words, **more):
        folder = tmp_path / f"command-{len(commands)}"
        folder.mkdir()
        commands.append(Command(folder, *words, **more))
        return commands[-1]

    yield start
    for command in commands:
        command.end()


@pytest.fixture
def run(lockstep, tmp_path):
    """`lockstep run` of a job given as an object; the run's folder is `folder / "run"`."""
    def start(job, *flags, **more):
        path = tmp_path / f"{job['metadata']['name']}.yaml"
        path.write_text(yaml.safe_dump(job))
        return lockstep("run", path, "--output", "run", *flags, **more)

    return start


@pytest.fixture
def timed():
    """Seconds since the last call."""
    last = [time.monotonic()]

    def lap():
        now = time.monotonic()
        seconds, last[0] = now - last[0], now
        return seconds

    return lap
