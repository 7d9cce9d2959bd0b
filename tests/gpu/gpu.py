"""Whether this machine has a GPU, or the tests run on the fakes to test themselves. README.md says how."""

import ctypes
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


def opens(name):
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def needs(variable, *names):
    """Skips where there is a GPU, but neither the variable names the library nor the dynamic linker finds it."""
    missing = not FAKE and bool(gpus()) and not os.environ.get(variable) and not any(opens(name) for name in names)
    return pytest.mark.skipif(missing, reason=f"the dynamic linker finds no {' or '.join(names)}; {variable} names one")


needed = pytest.mark.skipif(not FAKE and not gpus(), reason="there is no GPU here (nvidia-smi lists none)")
cudart = needs("LOCKSTEP_CUDART_LIBRARY", "libcudart.so.13", "libcudart.so.12")
nccl = needs("LOCKSTEP_NCCL_LIBRARY", "libnccl.so.2")
