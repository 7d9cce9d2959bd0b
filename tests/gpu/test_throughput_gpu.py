"""Images per second of the CUDA backend in bfloat16, beside PyTorch on the same GPU in the same call.

Prints speeds, their ratio, and the share of docs/gpu.md's aims. No speed fails the test: the GPU may have other work.
"""

import os
import re
import statistics
import subprocess

import gpu
import pytest

pytestmark = [gpu.needed, gpu.cudart, gpu.cublaslt, gpu.cudnn]

# Images per second aimed at, by network and a word in the GPU's name: the last rows of `make cuda-roofline`.
TABLE = gpu.e2e.ROOT / "tests/trainer/backend/cuda/roofline/table.txt"
AIMS = {(network, word): int(aim)
        for network, word, aim in re.findall(r"^(\S+) +bf16 (\S+) +(\d+) +\d+ %$", TABLE.read_text(), re.MULTILINE)}
BATCH, PIXELS, WARMUP, STEPS = (2, 32, 1, 1) if gpu.FAKE else (256, 224, 20, 100)
ROUNDS = 1 if gpu.FAKE else 3  # of each program, in turns; the median counts
SECONDS = 300 if gpu.FAKE else 90  # of a program: seven in ten minutes on a GPU
# Of the fakes, which compute on the CPU.
SMALL = {"resnet50": ["--width=4"], "mobilenet-v2": []}


def speed(output):
    """Images per second, as both programs say at the end of their output."""
    found = re.findall(r"^total images/sec: ([\d.]+)$", output, re.MULTILINE)
    assert found, output
    return float(found[-1])


def summary(name, device, ours, theirs):
    """A line for people. `ours`, `theirs`: the speeds of each round; `theirs` is empty where PyTorch is not there."""
    speed_of_ours = statistics.median(ours)
    line = f"{name} in bf16, {BATCH} images a step, on {device}: {speed_of_ours:,.0f} images/s"
    if theirs:
        line += (f", PyTorch (channels_last, AMP) {statistics.median(theirs):,.0f}, "
                 f"ratio {speed_of_ours / statistics.median(theirs):.2f}")
    else:
        line += ", PyTorch skipped: it is not installed (tests/e2e/torch.sh installs it)"
    aim = next((aim for (network, word), aim in AIMS.items() if network == name and word in device), None)
    return line + (f"; {speed_of_ours / aim:.0%} of the aim, {aim:,}" if aim else "")


def pytorch():
    """The path of a Python that has PyTorch, or None."""
    present = subprocess.run([gpu.e2e.ROOT / "tests/e2e/torch.sh", "--present"], stdout=subprocess.PIPE, text=True)
    return present.stdout.strip() if present.returncode == 0 else None


def run(words, environment):
    done = subprocess.run([str(word) for word in words], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("name", ["resnet50", "mobilenet-v2"])
def test_speed_beside_pytorch(name):
    ours, theirs = [], []
    trainer = [gpu.trainer(), "--backend=cuda", "--precision=bf16", f"--model={name}", "--data=synthetic",
               f"--batch-size={BATCH}", f"--micro-batch-size={BATCH}", f"--image-size={PIXELS}",
               f"--steps={WARMUP + STEPS}", f"--benchmark-warmup={WARMUP}", f"--eval-samples={BATCH}",
               *gpu.flags("cudart", "cublaslt", "cudnn"), *(SMALL[name] if gpu.FAKE else [])]
    python = pytorch()
    peer = [python, gpu.e2e.ROOT / "tests/gpu/pytorch_speed.py", name, "cpu" if gpu.FAKE else "cuda", BATCH, PIXELS,
            WARMUP, STEPS]
    # PyTorch has libraries of its own.
    of_peer = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    if gpu.FAKE:
        of_peer["OMP_NUM_THREADS"] = "1"
    for _ in range(ROUNDS):
        ours.append(speed(run(trainer, gpu.environment())))
        if python:
            theirs.append(speed(run(peer, of_peer)))
    print("\n" + summary(name, "the fakes" if gpu.FAKE else gpu.gpus()[0], ours, theirs))
    assert min(ours + theirs) > 0
