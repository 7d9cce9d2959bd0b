"""The contract tests of the CUDA backend under NVIDIA's compute-sanitizer, which must have nothing to say.

memcheck looks at every kernel, those of cuDNN and cuBLASLt too; racecheck, for shared memory, at Lockstep's own. On the
fakes a shell script plays the tool, because it needs a driver to start a program.
"""

import re
import subprocess

import gpu
import pytest

pytestmark = [gpu.needed, gpu.cudart, gpu.cublaslt, gpu.cudnn]

SECONDS = 450
FOUND = 86  # the exit code of a program about which the tool said something
TOOLS = {
    "memcheck": ["--report-api-errors=explicit"],
    "racecheck": ["--kernel-name=kernel_substring=lockstep"],
}
PARTS = {
    "libraries": "Convolutions.*:Products.*",
    "arenas": "Arenas.*:Images.*",
    "layers": "Small/CudaLayer.*:Odd/CudaLayer.*:Even/CudaLayer.*",
    "images": "*Images/CudaLayer.*",
    "bfloat16": "*/Bfloat16Layer.*",
}
if gpu.FAKE:
    PARTS = {"layer": "Small/CudaLayer.*/linear"}  # it shows that each tool is called
# Convolutions and products launch no kernel of Lockstep's.
CHECKS = [(tool, part) for tool in TOOLS for part in PARTS if (tool, part) != ("racecheck", "libraries")]
PLAYED = """#!/bin/sh
for word; do case "$word" in --*) shift ;; *) break ;; esac; done
echo "========= COMPUTE-SANITIZER"
"$@"
code=$?
echo "========= {summary}"
exit $code
"""
CLEAN = {
    "memcheck": "ERROR SUMMARY: 0 errors",
    "racecheck": "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)",
}
SUMMARY = {"memcheck": r"^=+ ERROR SUMMARY: (\d+) errors?\b", "racecheck": r"^=+ RACECHECK SUMMARY: (\d+) hazards?\b"}


def findings(tool, output):
    """How many errors, or hazards, the tool counts at the end of its output; None if it did not come to its end."""
    found = re.findall(SUMMARY[tool], output, re.MULTILINE)
    return int(found[-1]) if found else None


@pytest.fixture
def sanitizer(tmp_path):
    """The path of compute-sanitizer for a tool."""
    def path(tool):
        if gpu.FAKE:
            played = tmp_path / "compute-sanitizer"
            played.write_text(PLAYED.format(summary=CLEAN[tool]))
            played.chmod(0o755)
            return played
        installed = gpu.e2e.run(gpu.e2e.ROOT / "scripts/cuda-toolkit.sh", "--sanitizer", deadline=120)
        return f"{installed.stdout.strip()}/bin/compute-sanitizer"

    return path


@pytest.mark.parametrize("tool, part", CHECKS)
def test_compute_sanitizer_finds_nothing(sanitizer, tool, part):
    words = [sanitizer(tool), f"--tool={tool}", *TOOLS[tool], f"--error-exitcode={FOUND}", gpu.program("cuda_contract"),
             "--gtest_color=no", f"--gtest_filter={PARTS[part]}"]
    done = subprocess.run(words, env=gpu.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=SECONDS)
    assert done.returncode == 0, done.stdout
    assert findings(tool, done.stdout) == 0, done.stdout
    assert re.search(r"\[  PASSED  \] [1-9]", done.stdout) and "on cuda/float32/" in done.stdout, done.stdout
