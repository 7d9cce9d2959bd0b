#!/usr/bin/env python3
"""Kills members of a training job and measures how long the survivors stand still.

Each case trains a multilayer perceptron with AdamW under `lockstep run` (agents, TLS, coordinator: what a cluster
runs). It kills a rank chosen by chance at an instant chosen by chance, repeatedly. Each time the gang is whole again
and has made some steps. The figures of a kill come from the ledgers that the ranks write at each commit:

  overhead   from the kill to the first commit of the last survivor in the next generation, less the step itself: the
             median step of an undisturbed job of as many ranks, measured in the same run
  bound      30 ms and one all-reduce of the parameters' bytes on as many ranks and the same transport, measured in the
             same run
  join       by how much the survivors' longest gap between two commits exceeds a step when the replacement joins

A kill after which some survivor commits nothing within 60 s has an overhead of infinity ("never"), and the next job
begins.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import random
import sys
import tempfile
import time

import figures
from followed import GangFailed, alive, now_ns
from lockstep_gang import FORMS, Gang, ROOT, all_reduce_ms

SETTLE = 4             # steps of the whole gang before the next kill
UNDISTURBED = 40       # steps of an undisturbed job
GIVE_UP_AFTER = 60     # seconds without a commit of some survivor
FIXED_MS = 30          # of the bound, beside the all-reduce
KILLS_PER_JOB = 9      # the status keeps ten attempts


class Case:
    """One row of the result: a form of gang and the kind of victim."""

    def __init__(self, ranks, mebibytes, form, victim, kills):
        self.ranks, self.mebibytes, self.form, self.victim, self.kills = ranks, mebibytes, form, victim, kills
        self.raw = []          # dicts, one per kill
        self.attempts = []     # of status.attempts, those of the kills
        self.steps = {}        # gaps of undisturbed steps by number of ranks
        self.all_reduce = {}   # measurements by number of ranks
        self.loads = []

    def name(self):
        return f"{self.ranks} ranks, {self.mebibytes} MiB, {FORMS[self.form]}; a {self.victim} is killed"

    def transport(self):
        return "tcp" if self.form == "tcp" else "shm"

    def survivors_world(self):
        """Ranks of the generation that follows a kill, as it is most often."""
        worlds = [kill["world"] for kill in self.raw if kill["world"]]
        return max(set(worlds), key=worlds.count) if worlds else self.ranks


def parameter_bytes(gang):
    line = next(line for line in (gang.folder / "run/logs/rank-0.log").read_text().splitlines() if "parameters" in line)
    return 4 * int(line.split(",")[1].split()[0])


def undisturbed(case, folder, ranks):
    """Adds an undisturbed job's gaps between commits."""
    with Gang(folder, ranks, case.mebibytes, case.form, elastic=False, steps=UNDISTURBED) as gang:
        gang.wait(300)
        gang.ledgers.read()
        for commits in gang.ledgers.commits.values():
            case.steps.setdefault(ranks, []).extend(figures.step_gaps(commits, skip=5))
        case.bytes = parameter_bytes(gang)


def one_kill(case, gang, chance):
    ranks = gang.whole(SETTLE)
    pids = sorted(ranks, key=ranks.get)
    generation = gang.ledgers.newest_generation()
    step_ms = figures.median([gap for pid in pids for gap in figures.step_gaps(gang.ledgers.commits[pid])])
    victim = pids[chance.randrange(len(pids))]
    # A whole step long and added to an instant that has nothing to do with steps: every instant of a step is as likely.
    time.sleep(chance.random() * step_ms / 1e3)
    killed = gang.kill(victim, whole_pod=case.victim == "pod")
    survivors = [pid for pid in pids if pid != victim]

    def outcome():
        return figures.recovery(killed, generation, [gang.ledgers.commits[pid] for pid in survivors])

    def over():
        return not math.isinf(outcome().milliseconds) or not all(alive(pid) for pid in survivors)

    gang.until("the survivors' next step", over, GIVE_UP_AFTER)
    found = outcome()
    last = max((commit.ns for commit in gang.ledgers.commits[victim]), default=killed)
    kill = {"rank": ranks[victim], "milliseconds": found.milliseconds, "world": found.world,
            "stepsLost": found.steps_lost, "phase": (killed - last) / 1e6 / step_ms, "load": os.getloadavg()[0],
            "join": None, "killedNs": killed}
    case.raw.append(kill)
    if math.isinf(found.milliseconds):
        return False
    gang.whole(SETTLE)
    after = [[commit for commit in gang.ledgers.commits[pid] if commit.generation > generation] for pid in survivors]
    joined = figures.join(after, found.world, case.ranks)
    if joined:
        kill["join"] = joined.milliseconds
    return True


def some_kills(case, folder, count, chance, show):
    """A job of its own for up to `count` kills; how many there were."""
    done = 0
    try:
        with Gang(folder, case.ranks, case.mebibytes, case.form) as gang:
            fine = True
            while fine and done < count:
                fine = one_kill(case, gang, chance)
                done += 1
                show()
            if not fine:
                print(f"\n  a recovery failed; the job is left in {gang.folder}:\n{gang.said()}", flush=True)
            case.attempts += [attempt for attempt in gang.stop() if attempt.get("cause") != "Completed"]
            for commits in gang.ledgers.commits.values():
                by_world = [commit for commit in commits if commit.world == case.ranks]
                case.steps.setdefault(case.ranks, []).extend(figures.step_gaps(by_world))
    except GangFailed as error:
        print(f"\n  {error}", flush=True)
        case.raw.append({"rank": -1, "milliseconds": math.inf, "world": 0, "stepsLost": 0, "phase": math.nan,
                         "load": os.getloadavg()[0], "join": None})
        done += 1
    return max(done, 1)


def calibrate(case, folder):
    """Undisturbed steps and all-reduces, measured between the disturbed jobs, so that both see the same machine."""
    case.loads.append(os.getloadavg()[0])
    worlds = {kill["world"] for kill in case.raw if kill["world"]}
    sizes = {case.ranks} | ({case.ranks - 1} if case.form != "processes" else set()) | worlds
    for ranks in sorted(sizes - {case.ranks}):
        undisturbed(case, folder / "undisturbed", ranks)
    if not hasattr(case, "bytes"):
        undisturbed(case, folder / "undisturbed", case.ranks)
    for ranks in sorted(sizes):
        case.all_reduce.setdefault(ranks, []).append(all_reduce_ms(ranks, case.form, case.bytes))


def measure(case, folder, chance):
    def show():
        if sys.stderr.isatty() or len(case.raw) % 10 == 0 or len(case.raw) == case.kills:
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"  {len(case.raw)} of {case.kills} kills", end=end, file=sys.stderr, flush=True)

    calibrate(case, folder)
    while len(case.raw) < case.kills:
        some_kills(case, folder / "killed", min(KILLS_PER_JOB, case.kills - len(case.raw)), chance, show)
        calibrate(case, folder)
    case.loads.append(os.getloadavg()[0])


def result_of(case):
    world = case.survivors_world()
    step = {ranks: figures.median(gaps) for ranks, gaps in case.steps.items()}
    all_reduce = {ranks: figures.median(times) for ranks, times in case.all_reduce.items()}
    overheads = [kill["milliseconds"] - (0 if math.isinf(kill["milliseconds"]) else step[kill["world"]])
                 for kill in case.raw]
    joins = [kill["join"] - step[case.ranks] for kill in case.raw if kill["join"] is not None]
    bound = FIXED_MS + all_reduce.get(world, math.nan)
    overhead = figures.summary(overheads)
    # Parameters, and two moments of AdamW.
    at_bandwidth = 3 * case.bytes / figures.bandwidth(case.bytes, case.ranks, all_reduce[case.ranks])
    return {"case": case.name(), "ranks": case.ranks, "parameterBytes": case.bytes, "transport": case.transport(),
            "victim": case.victim, "worldAfterKill": world, "stepMs": step, "allReduceMs": all_reduce, "boundMs": bound,
            "overheadMs": overhead, "ratio": {key: overhead[key] / bound for key in ("median", "p90", "p99", "max")},
            "medianWithinBound": overhead["median"] <= bound, "p99WithinFiveBounds": overhead["p99"] <= 5 * bound,
            "stepsLost": sum(kill["stepsLost"] for kill in case.raw), "victims": [kill["rank"] for kill in case.raw],
            "joinMs": figures.summary(joins),
            "joinSteps": figures.median(joins) / step[case.ranks] if joins else math.nan,
            "stateAtBandwidthMs": at_bandwidth, "phasesMs": phases(case.attempts), "load": case.loads,
            "kills": case.raw}


def phases(attempts):
    """Every `...Milliseconds` of the job's attempts, by its name."""
    found = {}
    for attempt in attempts:
        for key, value in leaves(attempt):
            if key.endswith(("Milliseconds", "Ms")) and isinstance(value, (int, float)) and value >= 0:
                found.setdefault(key, []).append(value)
    return {key: figures.summary(values) for key, values in found.items()}


def leaves(value, prefix=""):
    if not isinstance(value, dict):
        yield prefix, value
        return
    for key, each in value.items():
        yield from leaves(each, f"{prefix}.{key}" if prefix else key)


def report(results):
    ms = figures.number
    rows = []
    for r in results:
        overhead, ratio = r["overheadMs"], r["ratio"]
        rows.append([r["case"], overhead["count"], overhead["failed"],
                     *(ms(overhead[key]) for key in ("median", "p90", "p99", "max")), ms(r["boundMs"]),
                     *(ms(ratio[key], 2) for key in ("median", "p99")), "yes" if r["medianWithinBound"] else "no",
                     "yes" if r["p99WithinFiveBounds"] else "no"])
    print("\noverhead of a kill in milliseconds, and how many times the bound it is")
    print("\n".join(figures.table(["case", "kills", "failed", "median", "p90", "p99", "max", "bound", "x", "p99 x",
                                   "median <= bound", "p99 <= 5 bounds"], rows)))
    rows = []
    for r in results:
        step, reduce = r["stepMs"], r["allReduceMs"]
        after = r["worldAfterKill"]
        rows.append([r["case"], after, ms(step.get(r["ranks"])), ms(step.get(after)), ms(reduce.get(after)),
                     ms(r["joinMs"]["median"]), ms(r["joinMs"]["max"]), ms(r["joinSteps"], 1),
                     ms(r["stateAtBandwidthMs"]), r["stepsLost"], f"{min(r['load']):.1f} to {max(r['load']):.1f}"])
    print("\nits parts, in milliseconds; the join of the replacement; the load of the machine")
    print("\n".join(figures.table(["case", "ranks after", "step", "step after", "all-reduce", "join pause", "max",
                                   "in steps", "state / bandwidth", "steps lost", "load"], rows)))
    for r in results:
        if r["phasesMs"]:
            print(f"\nphases of the job's attempts, in milliseconds: {r['case']}")
            print("\n".join(figures.table(["phase", "attempts", "median", "p90", "max"], [
                [key, each["count"], ms(each["median"]), ms(each["p90"]), ms(each["max"])]
                for key, each in r["phasesMs"].items()])))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200,
                        help="kills of the first two cases; the others have a tenth to a quarter of them")
    parser.add_argument("--only", help="run only the cases whose name contains this")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "out/bench/recovery.json")
    arguments = parser.parse_args()
    quarter, tenth = max(1, arguments.kills // 4), max(1, arguments.kills // 10)
    cases = [Case(4, 16, "tcp", "pod", arguments.kills), Case(4, 16, "memory", "pod", arguments.kills),
             Case(4, 16, "tcp", "process", quarter), Case(4, 16, "memory", "process", quarter),
             Case(4, 16, "processes", "process", quarter), Case(4, 64, "tcp", "pod", tenth),
             Case(4, 64, "memory", "pod", tenth), Case(8, 16, "tcp", "pod", tenth), Case(8, 16, "memory", "pod", tenth)]
    cases = [case for case in cases if not arguments.only or arguments.only in case.name()]
    print(f"seed {arguments.seed}; {os.cpu_count()} cores; load {os.getloadavg()[0]:.1f}", flush=True)
    results = []
    began = now_ns()
    with tempfile.TemporaryDirectory(prefix="lockstep-recovery-") as folder:
        for number, case in enumerate(cases):
            print(f"{case.name()}: {case.kills} kills ...", flush=True)
            measure(case, pathlib.Path(folder), random.Random(arguments.seed * 16 + number))
            results.append(result_of(case))
    report(results)
    seconds = (now_ns() - began) / 1e9
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(figures.plain({
        "seed": arguments.seed, "cores": os.cpu_count(), "seconds": seconds,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(), "results": results,
    }), indent=1) + "\n")
    print(f"\n{seconds:.0f} s; all measurements are in {arguments.json}")
    return 0 if results else 2


if __name__ == "__main__":
    sys.exit(main())
