"""Whether this machine has a GPU, or the tests run on the fakes to test themselves. README.md says how."""

import ctypes
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import e2e  # noqa: E402

FAKE = os.environ.get("LOCKSTEP_GPU_TESTS") == "fake"


def gpus():
    if shutil.which("nvidia-smi") is None:
        return []
    listed = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            timeout=60)
    return [line for line in listed.stdout.splitlines() if line.startswith("GPU ")] if listed.returncode == 0 else []


def opens(name):
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


BIN = e2e.BUILD / "tests/bin"
# What the variable of each library is on the fakes.
FAKES = {"LOCKSTEP_CUDART_LIBRARY": "libfakenccl.so", "LOCKSTEP_CUBLASLT_LIBRARY": "libfakecublaslt.so",
         "LOCKSTEP_CUDNN_LIBRARY": "libfakecudnn.so", "LOCKSTEP_NCCL_LIBRARY": "libfakenccl.so"}


def library(variable):
    """The path of a library, or None: as the dynamic linker finds it."""
    return str(BIN / FAKES[variable]) if FAKE else os.environ.get(variable)


def flags(*names):
    """What tells lockstep-trainer of libraries: cudart, cublaslt, cudnn or nccl."""
    given = {name: library(f"LOCKSTEP_{name.upper()}_LIBRARY") for name in names}
    return [f"--{name}-library={path}" for name, path in given.items() if path]


def environment():
    """That of a program of tests/gpu/CMakeLists.txt."""
    return {**os.environ, **({name: library(name) for name in FAKES} if FAKE else {})}


def program(name):
    """A program of tests/gpu/CMakeLists.txt."""
    path = BIN / (f"{name}_on_fake" if FAKE else name)
    if not path.exists() and not FAKE:
        pytest.skip(f"this build has no CUDA kernels, so no {name} (tests/gpu/README.md says how to build it)")
    return path


def trainer():
    """lockstep-trainer with the backend `cuda`."""
    if FAKE:
        return BIN / "lockstep-trainer-cuda"
    program("cuda_contract")  # skips where it is not there: the trainer has no kernels either
    return e2e.BUILD / "bin/lockstep-trainer"


def needs(variable, *names):
    """Skips where there is a GPU, but neither the variable names the library nor the dynamic linker finds it."""
    missing = not FAKE and bool(gpus()) and not os.environ.get(variable) and not any(opens(name) for name in names)
    return pytest.mark.skipif(missing, reason=f"the dynamic linker finds no {' or '.join(names)}; {variable} names one")


needed = pytest.mark.skipif(not FAKE and not gpus(), reason="there is no GPU here (nvidia-smi lists none)")
cudart = needs("LOCKSTEP_CUDART_LIBRARY", "libcudart.so.13", "libcudart.so.12")
nccl = needs("LOCKSTEP_NCCL_LIBRARY", "libnccl.so.2")
cublaslt = needs("LOCKSTEP_CUBLASLT_LIBRARY", "libcublasLt.so.13", "libcublasLt.so.12")
cudnn = needs("LOCKSTEP_CUDNN_LIBRARY", "libcudnn.so.9")
