"""scripts/cuda_kernels.py: reads what cuobjdump says of kernels, and finds one that spills. Needs no nvcc and no GPU."""

import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/cuda_kernels.py"
SAID = """
Fatbin elf code:
================
arch = sm_{gpu}
host = linux

Resource usage:
 Common:
  GLOBAL:0
 Function _ZN8lockstep7trainer4cuda12_GLOBAL__N_111gelu_kernelEPKfPfl:
  REG:{registers} STACK:{stack} SHARED:1024 LOCAL:0 CONSTANT[0]:425 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def told(tmp_path, *usage):
    dump = tmp_path / "dump"
    dump.write_text("".join(SAID.format(gpu=gpu, registers=registers, stack=stack) for gpu, registers, stack in usage))
    cuobjdump = tmp_path / "cuobjdump"
    cuobjdump.write_text(f'#!/bin/sh\ncat "{dump}"\n')
    cuobjdump.chmod(0o755)
    command = [sys.executable, SCRIPT, cuobjdump, tmp_path / "activations.cu.o"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_kernel_has_one_line_with_what_it_takes_of_each_gpu(tmp_path):
    done = told(tmp_path, (100, 18, 0), (80, 16, 0))
    assert done.returncode == 0, done.stderr
    heading, kernel, last = [line.split() for line in done.stdout.splitlines()]
    assert heading[-2:] == ["sm_80", "sm_100"]
    assert kernel == ["activations/gelu_kernel", "16/0/1024", "18/0/1024"]
    assert last == "1 kernels, at most 18 registers".split()


def test_a_kernel_that_spills_is_an_error_that_names_it(tmp_path):
    done = told(tmp_path, (80, 255, 0), (90, 255, 48))
    assert done.returncode == 1
    assert "activations/gelu_kernel" in done.stderr


def test_an_object_without_kernels_is_an_error(tmp_path):
    done = told(tmp_path)
    assert done.returncode == 1
    assert "no kernel" in done.stderr
