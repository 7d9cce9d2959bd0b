"""The operator is killed with -9 after the k-th write of a job's life, for all k, on a real API server, and started
again. Each time the end is the same, no pod is made twice, and the kill never interrupts training.

LOCKSTEP_FAULT_PARALLEL is how many lives go on at the same time. For the long form, LOCKSTEP_FAULT_ROUNDS repeats them
all, and LOCKSTEP_FAULT_LEASE is the seconds after which the next operator takes over.
"""

import concurrent.futures
import json
import os
import re
import signal
import time

import pytest

import life
import oracle
import watch

PARALLEL = int(os.environ.get("LOCKSTEP_FAULT_PARALLEL", "5"))
ROUNDS = int(os.environ.get("LOCKSTEP_FAULT_ROUNDS", "1"))


@pytest.fixture(scope="module")
def watches(cluster):
    found = {"pods": watch.Watch(cluster, "/api/v1/pods"),
             "jobs": watch.Watch(cluster, "/apis/lockstep.dev/v1alpha1/trainingjobs")}
    yield found
    for one in found.values():
        one.stop()


@pytest.fixture(scope="module")
def whole(cluster, watches, tmp_path_factory):
    """A life without a death: how many writes there are, and the end that all others must come to."""
    found = life.Life(cluster, watches, tmp_path_factory.mktemp("whole"), "whole").run()
    assert not found.problem, found.problem
    return found


def kind_of(line):
    """What was written, without the number of a generation."""
    return re.sub(r"generation \d+", "generation", line)


def pattern_of(line):
    words = re.escape(line).replace(r"\*", "[0-9a-z]+").replace("generation", "generation [0-9]+")
    return "^" + words.replace(r"\ ", " ") + "$"


def live(lives):
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        for going in [pool.submit(one.run) for one in lives]:
            going.result()
    return lives


def not_yet_last(whole, lives):
    """Kinds of writes of the whole life after which no operator has died."""
    last = {kind_of(one.first_writes()[-1]) for one in lives if one.killed}
    return sorted({kind_of(line) for line in whole.first_writes()} - last)


def print_table(ended):
    print(f"\n{'k':>3}  {'dies right after':58} {'end s':>6} {'leaderless s':>12} {'steps meanwhile':>15} generation")
    for one, record in ended:
        writes = one.first_writes()
        what = writes[-1] if one.killed else f"(has {len(writes)} writes)"
        seconds, steps = one.outage()
        print(f"{one.k or '':>3}  {what:58} {one.seconds:>6.1f} "
              f"{'' if seconds is None else format(seconds, '.1f'):>12} "
              f"{'' if steps is None else steps:>15} {oracle.status(record).get('membershipGeneration')}")


def test_a_life_without_a_death_is_as_it_should_be(cluster, whole):
    record = whole.record(list(cluster.audit()))
    print(f"\n{len(whole.first_writes())} writes in {whole.seconds:.1f} s:")
    for k, line in enumerate(whole.first_writes(), 1):
        print(f"{k:>3}  {line}")
    end = oracle.end_state(record)
    print(json.dumps(end))
    assert not oracle.violations(record)
    assert whole.exits == [0]
    assert ("Succeeded", "True", "Completed") in end["conditions"]
    assert end["digest"] and end["trained to step"] == end["step in the status"] == life.STEPS
    assert end["worldSize"] == life.SLOTS and end["restarts"]["total"] == 0
    assert end["pods left"] == []


def test_killed_after_any_write_the_operator_comes_back_to_the_same_end(cluster, watches, whole, tmp_path_factory):
    begun = time.monotonic()
    folder = tmp_path_factory.mktemp("killed")
    lives, k, rounds = [], 0, [f"killed-{number}" for number in range(ROUNDS)]
    while k < len(whole.first_writes()):
        k += 1
        lives += [life.Life(cluster, watches, folder, f"{name}-{k}", k) for name in rounds]
    live(lives)
    # How often progress is written depends on the clock, so the k of this life are not those of the whole one. What is
    # written there and was nobody's last is aimed at by name.
    aimed = [life.Life(cluster, watches, folder, f"aimed-{number}", die_on=pattern_of(line))
             for number, line in enumerate(not_yet_last(whole, lives))]
    lives += live(aimed)

    requests = list(cluster.audit())
    ended = [(one, one.record(requests)) for one in lives if not one.problem]
    print_table(ended)
    print(f"{len(lives)} lives, {sum(one.killed for one in lives)} deaths, {PARALLEL} at a time, in "
          f"{time.monotonic() - begun:.0f} s")
    wanted = oracle.end_state(whole.record(requests))
    wrong = [f"{one.namespace}: {one.problem}" for one in lives if one.problem]
    for one, record in ended:
        wrong += [f"{one.namespace}: {sentence}" for sentence in oracle.violations(record)]
        end = oracle.end_state(record)
        wrong += [f"{one.namespace}: {key} is {end[key]}, not {wanted[key]}"
                  for key in wanted if end[key] != wanted[key]]
        if one.k and one.killed and len(one.first_writes()) != one.k:
            wrong.append(f"{one.namespace}: {len(one.first_writes())} writes were noted before the death")
        if one.exits != ([-signal.SIGKILL, 0] if one.killed else [0]):
            wrong.append(f"{one.namespace}: the operators ended with {one.exits}")
    wrong += [f"nobody died after: {line}" for line in not_yet_last(whole, lives)]
    assert not wrong, "\n".join(wrong)


def test_the_oracle_finds_an_operator_that_makes_pods_twice(cluster, watches, tmp_path):
    one = life.Life(cluster, watches, tmp_path, "twice", steps=500, mutation="twice").run()
    assert not one.problem, one.problem
    found = oracle.violations(one.record(list(cluster.audit())))
    print(f"\n{found}")
    assert any("which is no first pod of a slot" in sentence for sentence in found)


def test_the_oracle_finds_an_operator_that_interrupts_training_on_return(cluster, watches, tmp_path):
    one = life.Life(cluster, watches, tmp_path, "forgetful", die_on="status Running$", later_mutation="forgetful").run()
    found = oracle.violations(one.record(list(cluster.audit())))
    print(f"\n{found}")
    assert not one.problem, one.problem
    assert any("PodDeleted" in sentence for sentence in found)
