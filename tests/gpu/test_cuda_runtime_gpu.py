"""What the CUDA backend relies on in a CUDA runtime, held against the real one.

tests/trainer/cuda/runtime_contract_test.cpp has the contract.
"""

import os
import pathlib
import subprocess
import sys

import gpu

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import e2e  # noqa: E402

pytestmark = [gpu.needed, gpu.cudart]


def test_the_runtime_keeps_the_contract():
    # Set and empty: the library that the dynamic linker finds.
    real = {} if gpu.FAKE else {"LOCKSTEP_CUDART": os.environ.get("LOCKSTEP_CUDART_LIBRARY", "")}
    done = subprocess.run(
        [e2e.BUILD / "tests/bin/cuda_runtime_contract_test"],
        env={**os.environ, **real}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
    )
    assert done.returncode == 0, done.stdout
    assert "PASSED" in done.stdout and "SKIPPED" not in done.stdout, done.stdout
