"""Whether this machine has a GPU, or the tests run on the fakes to test themselves. README.md says how."""

import os
import shutil
import subprocess

import pytest

FAKE = os.environ.get("LOCKSTEP_GPU_TESTS") == "fake"


def gpus():
    if shutil.which("nvidia-smi") is None:
        return []
    listed = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60)
    return [line for line in listed.stdout.splitlines() if line.startswith("GPU ")] if listed.returncode == 0 else []


needed = pytest.mark.skipif(not FAKE and not gpus(), reason="there is no GPU here (nvidia-smi lists none)")
