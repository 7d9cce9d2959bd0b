#!/usr/bin/env python3
"""Time to the last pod of a job. Our operator and JobSet run against a raw client that posts the same pods, by turns.

    make bench-control-plane                    # all cases, 3 rounds: the better part of an hour on 2 cores
    make bench-control-plane PODS=300 ROUNDS=1  # a quick run
    tests/bench/control_plane/bench_control_plane.py --only gang --rounds 5

An observer, the same for all three, posts the job (or the pods) and watches the namespace; its clock alone counts. The
fleet's nodes exist only as objects that KWOK plays, so pods are scheduled and run while others are still created.
tests/bench/README.md explains the columns."""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import statistics
import sys
import time

import controllers
import fleet as fleets
import memory

ROOT = pathlib.Path(__file__).resolve().parents[3]
SIDES = ("raw", "lockstep", "jobset")
CONNECTIONS = (4, 8, 16, 32, 64, 128, 256)
CONTROL_PLANE = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager", "kwok")
BATCHES = itertools.count(1)  # a part of each job's name


def cases(limit):
    """[(name, jobs, pods of each)], each cut to `limit` pods where that is given."""
    whole = [("gang of 1,000", 1, 1000), ("gang of 4,000", 1, 4000), ("100 jobs of 100", 100, 100),
             ("1,000 jobs of 4", 1000, 4)]
    if not limit:
        return whole
    cut = [(f"gang of {limit:,}", 1, limit)]
    for jobs, pods in ((max(1, limit // 30), 30), (max(1, limit // 4), 4)):
        cut.append((f"{jobs} jobs of {pods}", jobs, pods))
    return cut


def best_connections(fleet, template, pods):
    """The number of connections over which the raw client is fastest, and what each took."""
    took = {}
    for connections in CONNECTIONS:
        took[connections] = fleet.probe(template, pods, copies=pods, connections=connections)["last"]
        fleet.settle(pods)
        fleet.clear()
    best = min(took, key=took.get)
    print(f"raw client, {pods} pods: " +
          ", ".join(f"{number} connections {took[number]:.2f} s" for number in CONNECTIONS) + f"; {best} from here on",
          flush=True)
    return best


def measure(fleet, side, jobs, pods, template, connections):
    """One measurement: seconds to the last pod, CPU and peak of the controller, CPU of the control plane."""
    plane = {name: fleet.component(name) for name in CONTROL_PLANE}
    make = {"raw": contextlib.nullcontext, "lockstep": lambda: controllers.Lockstep(fleet),
            "jobset": lambda: controllers.JobSet(fleet)}[side]
    with make() as controller:
        begun = controllers.cpu_seconds(controller.pid) if controller else 0
        before = {name: controllers.cpu_seconds(pid) for name, pid in plane.items()}
        if side == "raw":
            said = fleet.probe(template, jobs * pods, copies=jobs * pods, connections=connections)
        else:
            document = fleets.training_job if side == "lockstep" else fleets.job_set
            batch = next(BATCHES)
            objects = [{"path": fleets.COLLECTIONS[side], "body": document(f"{side}-{batch}-{number}", pods)}
                       for number in range(jobs)]
            said = fleet.probe(objects, jobs * pods)
        if said["refused"]:
            raise SystemExit(f"bench: {side}: {said['refused']} posts were refused: {said['sentence']}")
        used = {name: controllers.cpu_seconds(pid) - before[name] for name, pid in plane.items()}
        row = {"side": side, **said, **used}
        if controller:
            row["cpu"] = controllers.cpu_seconds(controller.pid) - begun
            row["peak_mib"] = controllers.memory_mib(controller.pid, "VmHWM")
            if side == "lockstep":
                row["led_once"] = controller.led_once()
        fleet.settle(jobs * pods)
        fleet.clear()
    return row


def median(rows, side, field):
    return statistics.median(row[field] for row in rows if row["side"] == side)


def print_case(name, rows, sides):
    """The medians of one case; each ratio is of the measurements of the same round, and the median of those."""
    rounds = sorted({row["round"] for row in rows})

    def ratio(side, base):
        of = {(row["round"], row["side"]): row["last"] for row in rows}
        return statistics.median(of[number, side] / of[number, base] for number in rounds)

    print(f"\n{name} ({len(rounds)} rounds)\n{'':10}{'last pod':>10}{'half':>9}{'to raw':>9}{'to JobSet':>11}"
          f"{'CPU':>9}{'peak RSS':>11}")
    for side in sides:
        to_raw = f"{ratio(side, 'raw'):.2f}" if "raw" in sides else "-"
        to_job_set = f"{ratio(side, 'jobset'):.2f}" if "jobset" in sides else "-"
        own = f"{median(rows, side, 'cpu'):7.2f} s" if side != "raw" else f"{'-':>9}"
        peak = f"{median(rows, side, 'peak_mib'):7.1f} MiB" if side != "raw" else f"{'-':>11}"
        print(f"{side:10}{median(rows, side, 'last'):8.2f} s{median(rows, side, 'median'):7.2f} "
              f"s{to_raw:>9}{to_job_set:>11}{own}{peak}", flush=True)
    print(" " * 10 + "".join(f"{name.removeprefix('kube-'):>20}" for name in CONTROL_PLANE))
    for side in sides:
        print(f"{side:10}" + "".join(f"{median(rows, side, name):18.2f} s" for name in CONTROL_PLANE))
    leases = [row["led_once"] for row in rows if row["side"] == "lockstep"]
    print(f"the operator kept its Lease in {sum(leases)} of {len(leases)} measurements")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=0, help="cut each case to about so many pods (default: whole)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each side and case (default: 3)")
    parser.add_argument("--only", default="",
                        help="only cases whose name holds this text, for example `gang of 1,000`, or `memory`")
    parser.add_argument("--sides", default=",".join(SIDES), help=f"which sides (default: {','.join(SIDES)})")
    parser.add_argument("--default-rates", action="store_true",
                        help="kube-controller-manager makes 20 requests per second, as it does without flags, and"
                        " kube-scheduler 50 (default: 1,000 each)")
    given = parser.parse_args()
    sides = [side for side in SIDES if side in given.sides.split(",")]
    chosen = [case for case in cases(given.pods) if given.only in case[0]]
    remember = given.only == "memory"
    sizes = memory.SIZES if not given.pods else (0, given.pods)
    most = max([jobs * pods for _, jobs, pods in chosen] + ([max(sizes)] if remember else []), default=0)
    if not most:
        raise SystemExit(f"bench: no case holds '{given.only}'")
    begun, found = time.monotonic(), []
    with fleets.Fleet(most, default_rates=given.default_rates) as fleet:
        print(f"{fleet.size} nodes of the fleet; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; "
              f"{given.rounds} rounds; "
              f"controllers and scheduler make {'20 and 50' if given.default_rates else '1,000'} requests a second",
              flush=True)
        template, connections = None, 0
        if chosen and "raw" in sides:
            with controllers.Lockstep(fleet):
                template = fleet.raw_template()
            connections = best_connections(fleet, template, min(500, most))
        for name, jobs, pods in chosen:
            rows = []
            for number in range(given.rounds):
                # Each round begins with another side, so that a machine that becomes slower meanwhile favours none.
                for side in sides[number % len(sides):] + sides[:number % len(sides)]:
                    rows.append({"case": name, "round": number, "default_rates": given.default_rates,
                                 **measure(fleet, side, jobs, pods, template, connections)})
            found += rows
            print_case(name, rows, sides)
        if remember:
            found += memory.table(fleet, sizes)
    out = ROOT / "out/bench/control_plane.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1))
    print(f"\n{time.monotonic() - begun:.0f} s in all; each measurement is in {out.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
