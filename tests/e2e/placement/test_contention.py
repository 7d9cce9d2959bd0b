"""Gangs contend for 60 % of the GPUs that they ask, on nodes that KWOK plays. The test kills the operator with -9 in
between, and plain pods take GPUs and give them back. At no moment does a part of a gang stay bound for longer than its
timeout, or a GPU count twice.

LOCKSTEP_GANGS, LOCKSTEP_KILLS and LOCKSTEP_SEED change how many, how often, and which.
"""

import random
import time

import contention
import e2e
import invariants
import placed

SLACK = 10  # seconds beyond a gang's timeout, in which a bind is repaired
DEADLINE = 80 + 4 * contention.GANGS


def writes_of_each_life(seed, kills):
    """After how many writes the operators die: amid placing, since each gang takes some ten writes."""
    chosen = random.Random(seed)
    most = max(30, 3 * contention.GANGS // (kills + 1))
    return [chosen.randint(20, most) for _ in range(kills)]


def test_contending_gangs_all_finish_and_nothing_is_counted_twice(cluster, start, watches, pools):
    gangs = contention.Gangs(contention.GANGS, contention.SEED)
    nodes = pools[contention.POOL]
    cluster.kubectl("create", "namespace", contention.ADVERSARY)
    deaths = writes_of_each_life(contention.SEED, contention.KILLS)
    print(f"\n{len(gangs.jobs)} gangs ask for {gangs.asked} GPUs, there are {placed.GPUS * len(nodes)}")
    print(f"deaths of the operator after {deaths} writes")
    operator = contention.Mortal(start, deaths)
    begun = time.monotonic()
    try:
        with contention.Adversary(cluster, watches["pods"], set(nodes), contention.SEED) as adversary:
            cluster.apply({"apiVersion": "v1", "kind": "List", "items": gangs.jobs}, deadline=120)
            with contention.Finisher(cluster, watches["jobs"], gangs.seconds) as finisher:
                e2e.wait_for("all gangs were placed and have finished", finisher.all_finished, DEADLINE)
        took = time.monotonic() - begun
        cluster.apply(placed.simulated("everything", len(nodes), placed.GPUS, contention.POOL))
        with contention.Finisher(cluster, watches["jobs"], {"everything": 0}) as last:
            e2e.wait_for("a gang of all nodes was placed", last.all_finished, 90)
        wrong = [problem for problem in (finisher.problem, last.problem) if problem]
        for job in [*finisher.last.values(), *last.last.values()]:
            wrong += placed.charged(job)
    finally:
        names = [*gangs.bounds(), "everything"]
        cluster.kubectl("delete", "trainingjob", "--ignore-not-found", "--wait=false", *names, deadline=120)
        e2e.wait_for(
            "no job is left",
            lambda: not cluster.read("/apis/lockstep.dev/v1alpha1/namespaces/default/trainingjobs")["items"],
            60,
        )
        operator.end()

    events = watches["pods"].all_events()
    wrong += invariants.counted_twice(events, {node: placed.GPUS for node in nodes})
    wrong += invariants.claimed_twice(events, {node: placed.GPUS for node in nodes}, SLACK)
    wrong += invariants.past_timeout(events, gangs.bounds(), SLACK)
    wrong += invariants.leaked(events)
    wrong += [problem for problem in (operator.problem, adversary.problem) if problem]
    plain = f"{adversary.made} plain pods, {adversary.aimed} of them on reserved nodes"
    print(f"{took:.1f} s, {operator.died} deaths, {plain}, {len(events)} events")
    assert not wrong, "\n".join(wrong[:40])
    assert operator.died == contention.KILLS
    assert adversary.aimed
