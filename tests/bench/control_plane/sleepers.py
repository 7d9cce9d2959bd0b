#!/usr/bin/env python3
"""The cost of a sleeping worker for `lockstep run`: CPU seconds in all and per worker, for gangs of several sizes.

    tests/bench/control_plane/sleepers.py                       # 100, 300 and 600 workers that sleep 25 s
    tests/bench/control_plane/sleepers.py --workers 50,100 --seconds 10

The ratio per worker of the largest gang to the smallest is 1 if a worker costs the same in any gang. `in all` counts
lockstep, its agents and the workers; `lockstep` is the process of it that holds the operator."""

import argparse
import os
import pathlib
import subprocess
import tempfile
import time

import yaml

BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD",
                                    pathlib.Path(__file__).resolve().parents[3] / "build" / "release"))
TICKS = os.sysconf("SC_CLK_TCK")


def stat(pid):
    """(name, parent, CPU seconds without children) of a process; None once it has ended."""
    try:
        head, _, tail = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return None
    words = tail.split()
    return None if words[0] == "Z" else (head.partition("(")[2], int(words[1]),
                                         (int(words[11]) + int(words[12])) / TICKS)


def operator_of(command):
    """The process that `lockstep run` has started for the operator, or None."""
    for entry in pathlib.Path("/proc").iterdir():
        found = stat(entry.name) if entry.name.isdigit() else None
        if found and found[:2] == ("lockstep", command):
            return int(entry.name)
    return None


def run(workers, seconds, deadline):
    """Runs one gang to its end: {workers, in_all, lockstep, wall, peak_rss_mib}."""
    spec = {"image": "none", "nodes": workers, "command": ["sleep", str(seconds)], "rendezvous": {"kind": "None"}}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "job.yaml"
        file.write_text(yaml.safe_dump({"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
                                        "metadata": {"name": "sleepers"}, "spec": spec}))
        begun = time.monotonic()
        process = subprocess.Popen([BUILD / "bin/lockstep", "run", file, "--output", f"{folder}/run", "--quiet"],
                                   stdin=subprocess.DEVNULL)
        own, operator = 0.0, None
        while True:
            operator = operator or operator_of(process.pid)
            now = stat(operator) if operator else None
            own = now[2] if now else own
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - begun > deadline:
                process.kill()
                raise SystemExit(f"sleepers: {workers} workers did not end within {deadline} s")
            time.sleep(0.1)
        wall = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"sleepers: lockstep run of {workers} workers ended with {process.returncode}")
    return {"workers": workers, "in_all": used.ru_utime + used.ru_stime, "lockstep": own, "wall": wall,
            "peak_rss_mib": used.ru_maxrss / 1024}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="100,300,600", help="sizes of the gangs (default: 100,300,600)")
    parser.add_argument("--seconds", type=int, default=25, help="how long each worker sleeps (default: 25)")
    given = parser.parse_args()
    sizes = [int(word) for word in given.workers.split(",")]
    print(f"workers that sleep {given.seconds} s under lockstep run; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} "
          "cores")
    print(f"{'workers':>8}{'CPU in all':>12}{'per worker':>12}{'lockstep':>12}{'wall':>10}{'peak RSS':>12}", flush=True)
    rows = []
    for size in sizes:
        rows.append(run(size, given.seconds, deadline=given.seconds + 600))
        row = rows[-1]
        print(f"{size:>8}{row['in_all']:>10.2f} s{1000 * row['in_all'] / size:>9.1f} ms{row['lockstep']:>10.2f} "
              f"s{row['wall']:>8.1f} s{row['peak_rss_mib']:>8.1f} MiB", flush=True)
    first, last = rows[0], rows[-1]
    ratio = (last["in_all"] / last["workers"]) / (first["in_all"] / first["workers"])
    print(f"a worker of {last['workers']} costs {ratio:.2f} times the CPU of a worker of {first['workers']}")


if __name__ == "__main__":
    main()
