"""The model of the PyTorch peers of the recovery benchmark: the multilayer perceptron of
tests/bench/recovery/lockstep_gang.py in PyTorch.

Each process writes the same ledger as lockstep-trainer, so that one reader measures all: a line for the process, then
one per step.
"""

import json
import os
import time

import torch

FEATURES, CLASSES, SAMPLES = 32, 10, 2  # samples that a rank computes in a step


def model(layers, width):
    torch.manual_seed(7)
    widths = [FEATURES] + [width] * layers
    parts = []
    for inside, outside in zip(widths, widths[1:]):
        parts += [torch.nn.Linear(inside, outside, bias=False),
                  torch.nn.BatchNorm1d(outside, track_running_stats=False), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(width, CLASSES))


def optimizer_of(network):
    return torch.optim.AdamW(network.parameters(), lr=1e-4, betas=(0.9, 0.99), weight_decay=0.01)


def batch(step, rank):
    """A function of the step and the rank alone."""
    generator = torch.Generator().manual_seed(step * 1000 + rank)
    classes = torch.randint(CLASSES, (SAMPLES,), generator=generator)
    return torch.randn(SAMPLES, FEATURES, generator=generator) + classes[:, None], classes


class Ledger:
    """Appends to a file of this process's own, a line with one write."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"peer-{os.getpid()}-{time.time_ns()}.jsonl")
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._write({"kind": "process", "pid": os.getpid()})

    def committed(self, step, generation, rank, world):
        ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self._write({"kind": "step", "step": step, "generation": generation, "rank": rank, "world": world, "ns": ns})

    def _write(self, line):
        os.write(self._file, json.dumps(line).encode() + b"\n")
