#!/usr/bin/env python3
"""Kills one process of four at a fixed interval: the cost of a fault under Lockstep, torchrun and torchft, in one run.

All train a multilayer perceptron with 16 MiB of float32 parameters and AdamW on the CPU of this machine, four
processes, one thread each. torchrun and torchft have gloo and the settings with which they recover fastest here
(peers.py). Two figures:

  stands still   from the kill until all that have to go on have committed a step that is new: the survivors, or all
                 ranks where all are restarted
  seconds lost   from the kill until 3 s after the gang is whole again, but no longer than half of the time to the next
                 kill: how much longer that was than its steps take undisturbed, by the mean step of the whole gang in
                 as much time before it and after it. Steps done again since a checkpoint, steps with fewer ranks, the
                 join of the replacement and slower steps after it are all in it. A machine that others use is now
                 faster and now slower: the longer the time, the more of that is in the figure, too. The error is that
                 of the mean over the faults

A fault costs infinity ("never") if nothing new is committed until the next one is due. So does one after which the gang
is not whole in half of that time.
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
import peers
from followed import GangFailed, now_ns
from lockstep_gang import MODELS, ROOT, Gang

RANKS, MEBIBYTES = 4, 16
SETTLE = 10  # steps of the whole gang before the first kill, and before a later one
AFTER_NS = 3_000_000_000  # for slower steps after the join: the caches of a replacement are cold


class Ours(Gang):
    name, restarts_all = "Lockstep", False

    def __init__(self, folder):
        super().__init__(folder, RANKS, MEBIBYTES, "tcp")


def one_fault(system, chance, every):
    ranks = system.whole(SETTLE, deadline=180)
    generation = system.ledgers.newest_generation()
    victim = sorted(ranks, key=ranks.get)[chance.randrange(RANKS)]
    time.sleep(chance.random() * 0.2)  # so that no instant of a step is likelier than another
    killed = system.kill(victim)
    end = killed + round(every * 1e9)
    system.until("the next fault", lambda: now_ns() >= end, every + 10)
    processes = list(system.ledgers.commits.values())
    going_on = processes if system.restarts_all else [system.ledgers.commits[pid] for pid in ranks if pid != victim]
    newest = figures.newest_step(processes, killed)
    again = figures.progress_ns(generation, newest, going_on, RANKS if system.restarts_all else RANKS - 1)
    return {"rank": ranks[victim], "killedNs": killed, "endNs": end, "load": os.getloadavg()[0],
            "wholeNs": figures.whole_again_ns(generation, newest, processes, RANKS),
            "standsStillMs": math.inf if again is None else (again - killed) / 1e6}


def measure(system, faults, every, chance):
    result = {"system": system.name, "faults": [], "problem": ""}
    try:
        with system:
            for number in range(faults):
                result["faults"].append(one_fault(system, chance, every))
                print(f"  {system.name}: fault {number + 1} of {faults}: "
                      f"{result['faults'][-1]['standsStillMs'] / 1e3:.2f} s", flush=True)
            system.whole(SETTLE, deadline=180)
    except GangFailed as error:
        result["problem"] = str(error)
        print(f"  {error}", flush=True)
    processes = list(system.ledgers.commits.values())
    result["stepMs"] = figures.undisturbed_ms(processes, RANKS, 0, math.inf)
    for fault in result["faults"]:
        killed, middle = fault["killedNs"], (fault["killedNs"] + fault["endNs"]) // 2
        fault["lostMs"], fault["stepMs"] = figures.cost(processes, RANKS, killed, fault["wholeNs"], AFTER_NS, middle)
    while len(result["faults"]) < faults:  # faults that it did not survive to
        result["faults"].append({"rank": -1, "standsStillMs": math.inf, "lostMs": math.inf, "load": os.getloadavg()[0]})
    return result


def report(results, every):
    rows = []
    for result in results:
        still = figures.summary([fault["standsStillMs"] / 1e3 for fault in result["faults"]])
        lost = figures.summary([fault["lostMs"] / 1e3 for fault in result["faults"]])
        loads = [fault["load"] for fault in result["faults"]]
        rows.append([result["system"], still["count"], still["failed"], figures.number(result["stepMs"]),
                     *(figures.number(still[key], 2) for key in ("median", "p90", "max")),
                     *(figures.number(lost[key], 2) for key in ("median", "p90", "max")),
                     figures.number(lost["mean"], 2), figures.number(lost["error"], 2),
                     f"{min(loads):.1f} to {max(loads):.1f}"])
    print(f"\none SIGKILL every {every:.0f} s; {RANKS} ranks; seconds")
    head = ["system", "faults", "never", "step, ms", "stands still", "p90", "max", "lost", "p90", "max", "mean",
            "error", "load"]
    print("\n".join(figures.table(head, rows)))


def ratios(results):
    """The ratio of Lockstep to the better of the others, by median."""
    def medians(key):
        return {result["system"]: figures.percentile([fault[key] for fault in result["faults"]], 0.5)
                for result in results}

    found = {}
    for key in ("standsStillMs", "lostMs"):
        of = medians(key)
        others = [value for name, value in of.items() if name != Ours.name]
        if Ours.name in of and others:
            found[key] = of[Ours.name] / min(others)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--every", type=float, default=30, help="seconds between faults")
    parser.add_argument("--only", help="only the system of this name")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "out/bench/peers.json")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}; {os.cpu_count()} cores; load {os.getloadavg()[0]:.1f}", flush=True)
    layers, width = MODELS[MEBIBYTES]
    results = []
    with tempfile.TemporaryDirectory(prefix="lockstep-peers-") as folder:
        base = pathlib.Path(folder)
        systems = {
            "Lockstep": lambda: Ours(base / "lockstep"),
            "torchrun": lambda: peers.Torchrun(base / "torchrun", RANKS, layers, width,
                                               peers.python_with(ROOT / "tests/e2e/torch.sh")),
            "torchft": lambda: peers.Torchft(base / "torchft", RANKS, layers, width,
                                             peers.python_with(peers.HERE / "torchft.sh")),
        }
        for name, make in systems.items():
            if not arguments.only or arguments.only == name:
                results.append(measure(make(), arguments.faults, arguments.every, random.Random(arguments.seed)))
    report(results, arguments.every)
    found = ratios(results)
    if found:
        print(f"\nours to the better of the others: {found['standsStillMs']:.3f} of its standstill, "
              f"{found['lostMs']:.3f} of its seconds lost (goal: 0.05)")
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(figures.plain({
        "seed": arguments.seed, "cores": os.cpu_count(), "everySeconds": arguments.every,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(), "ratios": found, "results": results,
    }), indent=1) + "\n")
    print(f"all measurements are in {arguments.json}")
    return 0 if results else 2


if __name__ == "__main__":
    sys.exit(main())
