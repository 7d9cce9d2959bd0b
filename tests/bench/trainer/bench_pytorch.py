"""Training steps of the convolutional networks against PyTorch's, which take turns: `make bench-trainer`.

Each program trains one step when it is asked to, and the other one waits meanwhile. The ratio is PyTorch's median over
ours: above 1, ours is faster. CPU time is that of all threads, so it stays comparable where others use the machine.
"""

import argparse
import os
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build/release"))
NETWORKS = ("resnet18-cifar", "resnet50", "mobilenet-v2", "vgg-a")
# PyTorch gives large blocks back to the system after each use and takes the page faults again, unless it is told so.
MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(16 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}


class Steps:
    """A program that trains one step for each line that it reads."""

    def __init__(self, command, threads, **environment):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **environment}
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.seconds = []

    def step(self, counts=True):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench_pytorch.py: '{self.process.args[0]}' ended early")
        if counts:
            self.seconds.append([float(number) for number in line.split()])

    def medians(self):
        return [statistics.median(column) for column in zip(*self.seconds)]

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)


def compare(name, python, threads, rounds):
    bench = BUILD / "tests/bin/convolution_bench"
    ours = Steps([bench, "--networks", name, "--threads", threads, "--on-request"], threads)
    theirs = Steps([python, ROOT / "tests/bench/trainer/pytorch_steps.py", name, threads], threads, **MALLOC)
    for i in range(-2, rounds):
        for program in (ours, theirs):
            program.step(counts=i >= 0)  # two of each warm up
    wall, cpu = ours.medians()
    peer_wall, peer_cpu = theirs.medians()
    for program in (ours, theirs):
        program.end()
    print(
        f"{name:<16}{wall * 1e3:>10.0f}{peer_wall * 1e3:>12.0f}{peer_wall / wall:>8.2f}"
        f"{cpu * 1e3:>12.0f}{peer_cpu * 1e3:>12.0f}{peer_cpu / cpu:>8.2f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, choices=NETWORKS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="timed steps of each (default 7)")
    args = parser.parse_args()
    python = subprocess.run([ROOT / "tests/e2e/torch.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    print(f"{'network':<16}{'ours ms':>10}{'PyTorch ms':>12}{'ratio':>8}"
          f"{'ours CPU':>12}{'PyTorch CPU':>12}{'ratio':>8}")
    for name in args.networks:
        compare(name, python, args.threads, args.rounds)


if __name__ == "__main__":
    main()
