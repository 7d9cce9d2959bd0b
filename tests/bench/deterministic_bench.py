#!/usr/bin/env python3
"""The cost of --deterministic: seconds per step with it over those without it, by pairs of consecutive runs.

    tests/bench/deterministic_bench.py                  # the transformer, in one process and as two ranks
    tests/bench/deterministic_bench.py --pairs 9

With --deterministic the trainer keeps each micro-batch's gradient apart and sums them in an order that does not depend
on the number of ranks. The order within a pair alternates, so that a machine that becomes slower meanwhile favours
neither; the median of the ratios counts."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

import yaml

BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD",
                                    pathlib.Path(__file__).resolve().parents[2] / "build" / "release"))
MODEL = ["--model=char-transformer", "--data=/usr/share/common-licenses", "--seed=7", "--threads=1",
         "--log-every=1000000", "--eval-samples=4"]


def step_ms(ranks, steps, deterministic):
    """Milliseconds per step, as the trainer measured them."""
    flags = ["--deterministic"] if deterministic else []
    spec = {"image": "none", "nodes": ranks, "command": ["lockstep-trainer", *MODEL, f"--steps={steps}", *flags]}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "job.yaml"
        file.write_text(yaml.safe_dump({"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
                                        "metadata": {"name": "bench"}, "spec": spec}))
        subprocess.run([BUILD / "bin/lockstep", "run", file, "--output", f"{folder}/run", "--quiet"], check=True,
                       timeout=600, stdin=subprocess.DEVNULL)
        lines = (pathlib.Path(folder) / "run/logs/rank-0.log").read_text().splitlines()
    result = json.loads(next(line for line in lines if line.startswith("result "))[len("result "):])
    return 1000 * 32 / result["samples_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5,
                        help="runs with and without, for each number of ranks (default: 5)")
    parser.add_argument("--steps", type=int, default=30, help="steps of each run (default: 30)")
    given = parser.parse_args()
    print(f"{given.pairs} pairs of {given.steps} steps; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for ranks in (1, 2):
        ratios, plain = [], []
        for pair in range(given.pairs):
            seen = {flag: step_ms(ranks, given.steps, flag)
                    for flag in ((False, True) if pair % 2 == 0 else (True, False))}
            ratios.append(seen[True] / seen[False])
            plain.append(seen[False])
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
        print(f"transformer, {ranks} rank{'s' if ranks > 1 else ' '}: a deterministic step takes "
              f"{statistics.median(ratios):.3f} times as long "
              f"({spread}; a plain one {statistics.median(plain):.0f} ms)", flush=True)


if __name__ == "__main__":
    main()
