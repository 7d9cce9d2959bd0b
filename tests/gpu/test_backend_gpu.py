"""The CUDA backend on a GPU: the contracts of cuDNN and cuBLASLt, each layer beside `ref`, training steps beside `cpu`.

tests/trainer/backend/cuda/under_test.h says which tests these are; the unit test cuda_backend runs them on the fakes.
"""

import subprocess

import gpu
import pytest

pytestmark = [gpu.needed, gpu.cudart, gpu.cublaslt, gpu.cudnn]

# Each part within its time: which tests, and of these what the fakes run here.
PARTS = {
    "cudnn": ("Convolutions.*", "*"),
    "cublaslt": ("Products.*", "*"),
    "arenas": ("Arenas.*:Images.*", "*"),
    "layers": ("*/CudaLayer.*:*/CudaOnlyPath.*:CudaContract.*", "Small/CudaLayer.*/linear:CudaContract.*"),
    "models": ("CudaModels.*", "CudaModels.gradients_of_every_layer_are_those_of_ref"),
    "tf32": ("*/Tf32Layer.*:Tf32.*", "Small/Tf32Layer.*/linear:Tf32.*"),
    "bfloat16": ("*/Bfloat16Layer.*:*/Bfloat16OnlyPath.*:Bfloat16.*", "Small/Bfloat16Layer.*/linear:Bfloat16.c*"),
    "training": ("Training*", "TrainingOnCuda.a_restart*"),
}
SECONDS = 500


def told(*flags):
    return subprocess.run([gpu.program("cuda_contract"), "--gtest_color=no", *flags], env=gpu.environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)


def names(tests="*"):
    """The names of these tests, as gtest lists them: suites, and indented below each its tests."""
    listed, suite = set(), ""
    for line in told("--gtest_list_tests", f"--gtest_filter={tests}").stdout.splitlines():
        word = line.split("#")[0].rstrip()
        if word.startswith("  "):
            listed.add(suite + word.strip())
        elif word.endswith("."):
            suite = word
    return listed


@pytest.mark.parametrize("part", PARTS)
def test_the_backend_keeps_its_contract(part):
    tests, of_fakes = PARTS[part]
    done = told(f"--gtest_filter={of_fakes if gpu.FAKE and of_fakes != '*' else tests}")
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    assert "on cuda/float32/" in done.stdout and "SKIPPED" not in done.stdout, done.stdout
    assert "[  PASSED  ] 0 tests" not in done.stdout, done.stdout


def test_each_test_of_the_program_is_in_one_part():
    parts = [names(tests) for tests, _ in PARTS.values()]
    assert all(parts) and sum(map(len, parts)) == len(names())
    assert set.union(*parts) == names()
