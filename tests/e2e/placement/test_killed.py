"""The operator is killed with -9 after the k-th write of a gang's life, for all k, on a real API server. Each time the
gang is placed, repaired, released and placed again, and only the pod that was deleted is charged.

LOCKSTEP_FAULT_PARALLEL is how many lives go on at the same time; LOCKSTEP_FAULT_ROUNDS repeats them all."""

import concurrent.futures
import os
import queue
import time

import invariants
import lives
import placed

ROUNDS = int(os.environ.get("LOCKSTEP_FAULT_ROUNDS", "1"))
SLACK = 12  # seconds: a dead leader is followed after 3 s, the next one lists all, and a repair may take 5 s


def wrong_with(life):
    """Sentences; none when all is well."""
    if life.problem:
        return [f"{life.namespace}: {life.problem}"]
    events = life.events()
    found = invariants.counted_twice(events, {node: placed.GPUS for node in life.nodes})
    found += invariants.claimed_twice(events, {node: placed.GPUS for node in life.nodes}, SLACK)
    found += invariants.past_timeout(events, {lives.JOB: (2, lives.TIMEOUT)}, SLACK)
    found += invariants.leaked(events)
    status = life.job()["status"]
    causes = [attempt["cause"] for attempt in status["attempts"]]
    if causes != ["PodDeleted"] or status["restarts"]["total"] != 1:
        found.append(f"attempts {causes}, restarts {status['restarts']}")
    if life.operator.problem:
        found.append(life.operator.problem)
    # How often a status is written depends on the clock, so a life may have less writes than the whole one.
    if life.operator.died != (1 if 0 < life.k <= len(life.writes()) else 0):
        found.append(f"the operator died {life.operator.died} times")
    return [f"{life.namespace}: {sentence}" for sentence in found]


def test_killed_after_any_write_the_operator_finishes_what_it_began(cluster, watches, pools, tmp_path):
    free = queue.SimpleQueue()
    for pool in lives.POOLS:
        free.put(pool)

    def live(life):
        pool = free.get()
        try:
            return life.run(pool, pools[pool])
        finally:
            free.put(pool)

    begun = time.monotonic()
    whole = live(lives.Life(cluster, watches, tmp_path, "whole"))
    print(f"\n{len(whole.writes())} writes in {whole.seconds or 0:.1f} s:")
    for k, line in enumerate(whole.writes(), 1):
        print(f"{k:>3}  {line}")
    assert wrong_with(whole) == []
    # The last write is the status that the life waits for, so nothing follows a death after it.
    asked = [lives.Life(cluster, watches, tmp_path, f"killed-{number}-{k}", k)
             for number in range(ROUNDS) for k in range(1, len(whole.writes()))]
    with concurrent.futures.ThreadPoolExecutor(lives.PARALLEL) as pool:
        ended = [going.result() for going in [pool.submit(live, one) for one in asked]]
    print(f"{'k':>3}  {'dies right after':52} {'end s':>6}")
    for life in ended:
        print(f"{life.k:>3}  {(life.writes() or [''])[-1]:52} {life.seconds or 0:>6.1f}")
    print(f"{len(ended)} lives, {lives.PARALLEL} at a time, in {time.monotonic() - begun:.0f} s")
    wrong = [sentence for life in ended for sentence in wrong_with(life)]
    assert not wrong, "\n".join(wrong[:20])
