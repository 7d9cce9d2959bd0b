"""scripts/cuda_kernels.py on what a program in place of cuobjdump says; this build's kernels against kernels.txt."""

import pathlib
import re
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import e2e  # noqa: E402

SCRIPT = e2e.ROOT / "scripts/cuda_kernels.py"
TABLE = pathlib.Path(__file__).with_name("kernels.txt")
SYMBOL = "_ZN8lockstep7trainer4cuda12_GLOBAL__N_111gelu_kernelEPKfPfl"
USAGE = f"""
Fatbin elf code:
================
arch = sm_{{gpu}}
host = linux

Resource usage:
 Common:
  GLOBAL:0
 Function {SYMBOL}:
  REG:{{registers}} STACK:{{stack}} SHARED:1024 LOCAL:0 CONSTANT[0]:425 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
SASS = f"""
arch = sm_{{gpu}}
		Function : {SYMBOL}
        /*0000*/                   LDC R1, c[0x0][0x37c] ;    /* 0x0000df00ff017b82 */
        /*0010*/              @!P0 LDG.E R2, desc[UR4][R2.64] ;    /* 0x0000000402028981 */
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;    /* 0x0000000402048981 */
        /*0030*/                   STG.E.128 desc[UR4][R2.64], R4 ;    /* 0x0000000402048986 */
        /*0040*/              @P1  {{operation}} R4, R4, R6, R8 ;    /* 0x000000060404722b */
"""


class Kernels:
    """Kernels of which a program says what cuobjdump says; each is (GPU, registers, stack, an operation)."""

    def __init__(self, folder):
        self.folder = folder
        self.cuobjdump = folder / "cuobjdump"
        self.cuobjdump.write_text(f'#!/bin/sh\ncat "{folder}/dump$1"\n')
        self.cuobjdump.chmod(0o755)

    def told(self, *kernels, options=(), version="13.2.86"):
        usage = (USAGE.format(gpu=gpu, registers=registers, stack=stack) for gpu, registers, stack, _ in kernels)
        (self.folder / "dump--dump-resource-usage").write_text("".join(usage))
        sass = (SASS.format(gpu=gpu, operation=operation) for gpu, _, _, operation in kernels)
        (self.folder / "dump--dump-sass").write_text("".join(sass))
        (self.folder / "dump--version").write_text(f"Cuda compilation tools, release 13.2, V{version}\n")
        command = [sys.executable, SCRIPT, *options, self.cuobjdump, self.folder / "activations.cu.o"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def kernels(tmp_path):
    return Kernels(tmp_path)


def test_a_kernel_has_a_line_for_each_gpu_with_what_it_takes(kernels):
    done = kernels.told((100, 18, 0, "FFMA"), (80, 16, 0, "FFMA"))
    assert done.returncode == 0, done.stderr
    version, _, first, second, last = [line.split() for line in done.stdout.splitlines()]
    assert version == "# CUDA 13.2.86".split()
    assert first == "activations/gelu_kernel sm_80 16 0 1024 2 1 0".split()
    assert second == "activations/gelu_kernel sm_100 18 0 1024 2 1 0".split()
    assert last == "1 kernels, at most 18 registers".split()


def test_a_kernel_that_spills_is_an_error_that_names_it(kernels):
    done = kernels.told((80, 255, 0, "FFMA"), (90, 255, 48, "FFMA"))
    assert done.returncode == 1
    assert "spill registers into memory: activations/gelu_kernel" in done.stderr


def test_float64_in_a_family_that_is_not_named_is_an_error(kernels):
    done = kernels.told((90, 32, 0, "DFMA"))
    assert done.returncode == 1
    assert "float64" in done.stderr and "activations/gelu_kernel" in done.stderr


def test_a_line_that_differs_from_the_table_is_an_error(kernels, tmp_path):
    assert kernels.told((90, 32, 0, "FFMA"), options=("--write", tmp_path / "table")).returncode == 0
    assert kernels.told((90, 32, 0, "FFMA"), options=("--table", tmp_path / "table")).returncode == 0
    more = kernels.told((90, 33, 0, "FFMA"), options=("--table", tmp_path / "table"))
    assert more.returncode == 1 and "differ from" in more.stderr
    fewer = kernels.told((90, 32, 0, "FFMA"), (80, 32, 0, "FFMA"), options=("--table", tmp_path / "table"))
    assert fewer.returncode == 1


def test_another_version_of_cuda_is_not_compared(kernels, tmp_path):
    assert kernels.told((90, 32, 0, "FFMA"), options=("--write", tmp_path / "table")).returncode == 0
    done = kernels.told((90, 33, 0, "FFMA"), options=("--table", tmp_path / "table"), version="13.3.1")
    assert done.returncode == 0 and "not compared" in done.stderr


def test_an_object_without_kernels_is_an_error(kernels):
    done = kernels.told()
    assert done.returncode == 1
    assert "no kernel" in done.stderr


def test_the_kernels_of_this_build_are_those_of_the_table():
    cache = e2e.BUILD / "CMakeCache.txt"
    objects = sorted((e2e.BUILD / "trainer/backend/cuda/kernels").glob("*.cu.o"))
    if not objects or not cache.exists():
        pytest.skip("this build has no CUDA kernels (scripts/cuda-toolkit.sh installs nvcc)")
    toolkit = re.search(r"^LOCKSTEP_CUDA_TOOLKIT:\w+=(.*)$", cache.read_text(), re.MULTILINE)[1]
    done = subprocess.run([SCRIPT, "--table", TABLE, f"{toolkit}/bin/cuobjdump", *objects],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
