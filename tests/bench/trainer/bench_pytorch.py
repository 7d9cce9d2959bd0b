"""Training steps of six networks against PyTorch's, which take turns: `make bench-trainer`.

Each program trains one step when it is asked to, and the others wait meanwhile. PyTorch runs twice, as it is and
compiled (`torch.compile`). The faster of both counts, by CPU time. A ratio of times is PyTorch's median over ours:
above 1, ours is faster. CPU time is that of all threads, so it stays comparable where others use the machine. A ratio
of memory is our most over PyTorch's: below 1, ours needs less. `recomputing`: ours with --recompute=norm.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build/release"))
NETWORKS = ("resnet18-cifar", "resnet50", "mobilenet-v2", "vgg-a", "mlp", "char-transformer")
WITH_NORMS = ("resnet18-cifar", "resnet50", "mobilenet-v2", "char-transformer")
# PyTorch gives large blocks back to the system after each use and takes the page faults again, unless it is told so.
MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(16 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}
NO_NUMPY = {"PYTHONWARNINGS": "ignore:Failed to initialize NumPy"}  # which these programs need not


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


def compare(name, python, threads, rounds, scratch):
    bench = BUILD / "tests/bin/training_step_bench"
    ours = [bench, "--networks", name, "--threads", threads, "--on-request"]
    programs = {"ours": Steps(ours, threads)}
    if name in WITH_NORMS:
        programs["recomputing"] = Steps([*ours, "--recompute"], threads)
    for how in ("eager", "compiled"):
        command = [python, ROOT / "tests/bench/trainer/pytorch_steps.py", name, threads, how]
        # What torch.compile writes goes to the folder. With one thread it starts no processes.
        compiler = {"TMPDIR": scratch, "TORCHINDUCTOR_CACHE_DIR": scratch, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        programs[how] = Steps(command, threads, **compiler, **MALLOC, **NO_NUMPY)
    for i in range(-3, rounds):
        for program in programs.values():
            program.step(counts=i >= 0)  # three of each warm up
    medians = {which: program.medians() for which, program in programs.items()}
    for program in programs.values():
        program.end()
    best = min(("eager", "compiled"), key=lambda how: medians[how][1])
    peer_wall, peer_cpu, peer_memory = medians[best]
    for which, title in (("ours", name), ("recomputing", "  recomputing")):
        if which not in programs:
            continue
        wall, cpu, memory = medians[which]
        print(
            f"{title:<18}{wall * 1e3:>10.1f}{peer_wall * 1e3:>12.1f}{peer_wall / wall:>8.2f}"
            f"{cpu * 1e3:>12.1f}{peer_cpu * 1e3:>13.1f}{peer_cpu / cpu:>8.2f}"
            f"{memory:>12.0f}{peer_memory:>13.0f}{memory / peer_memory:>8.2f}  {best}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, choices=NETWORKS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="timed steps of each (default 7)")
    args = parser.parse_args()
    made = subprocess.run([ROOT / "tests/e2e/torch.sh", "--compiler"], check=True, stdout=subprocess.PIPE, text=True)
    python = made.stdout.strip()
    print(f"{'network':<18}{'ours ms':>10}{'PyTorch ms':>12}{'ratio':>8}"
          f"{'ours CPU':>12}{'PyTorch CPU':>13}{'ratio':>8}"
          f"{'ours MiB':>12}{'PyTorch MiB':>13}{'ratio':>8}  PyTorch is")
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.networks:
            compare(name, python, args.threads, args.rounds, scratch)


if __name__ == "__main__":
    main()
