"""The invariants on invented events: they find each kind of harm, and none in sound events."""

import invariants
import placed

ALLOCATABLE = {"k1": 8, "k2": 8}


def pod(name, job=None, node=None, reserved=None, gated=False, gpus=8, phase="Pending"):
    meta = {"name": name, "uid": f"uid-{name}", "labels": {"lockstep.dev/job": job} if job else {},
            "annotations": {placed.NODE: reserved} if reserved else {}}
    spec = {"containers": [{"resources": {"limits": {placed.GPU: str(gpus)}}}]}
    if node:
        spec["nodeName"] = node
    if gated:
        spec["schedulingGates"] = [{"name": placed.GATE}]
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def life(name, job, node, begun):
    """A pod that is created with a gate, bound, and ended."""
    return [
        (begun, "ADDED", pod(name, job, reserved=node, gated=True)),
        (begun + 1, "MODIFIED", pod(name, job, reserved=node)),
        (begun + 2, "MODIFIED", pod(name, job, node, node)),
        (begun + 9, "MODIFIED", pod(name, job, node, node, phase="Succeeded")),
    ]


def found(events, slack=1):
    events = sorted(events, key=lambda event: event[0])
    return (invariants.counted_twice(events, ALLOCATABLE) + invariants.claimed_twice(events, ALLOCATABLE, slack)
            + invariants.past_timeout(events, {"job": (2, 5), "next": (1, 5)}, slack) + invariants.leaked(events))


def test_gangs_one_after_the_other_are_left_alone():
    assert found(life("a", "job", "k1", 0) + life("b", "job", "k2", 3) + life("c", "next", "k1", 10)) == []


def test_gpus_of_a_node_that_are_given_to_two_gangs_are_found():
    said = found(life("a", "job", "k1", 0) + life("b", "job", "k2", 0) + life("c", "next", "k1", 4))
    assert any("pods of jobs claim 16 of 8 GPUs of k1" in sentence for sentence in said), said
    assert any("bound pods claim 16 of 8 GPUs of k1" in sentence for sentence in said), said


def test_a_gated_pod_whose_node_is_anothers_is_found_when_it_stays_so():
    for lasts, harm in ((0.5, False), (5, True)):
        late = [(3, "ADDED", pod("late", "next", reserved="k1", gated=True)),
                (3 + lasts, "MODIFIED", pod("late", "next", reserved="k2", gated=True)),
                (8.5, "DELETED", pod("late", "next", reserved="k2", gated=True))]
        said = [sentence for sentence in found(life("a", "job", "k1", 0) + late, slack=1) if "claim" in sentence]
        assert bool(said) == harm, (lasts, said)


def test_two_pods_without_a_gate_on_one_node_are_found_at_once():
    late = [(3, "ADDED", pod("late", "next", reserved="k1")), (3.2, "DELETED", pod("late", "next", reserved="k1"))]
    said = found(life("a", "job", "k1", 0) + late, slack=9)
    assert any("pods without a gate claim 16 of 8 GPUs of k1" in sentence for sentence in said), said


def test_a_plain_pod_on_a_reserved_node_is_no_claim():
    taker = [(0.5, "ADDED", pod("taker", node="k1")), (0.7, "DELETED", pod("taker", node="k1"))]
    assert found(life("a", "job", "k1", 0) + life("b", "job", "k2", 0) + taker) == []


def test_a_part_of_a_gang_that_is_bound_for_too_long_is_found():
    late = [(0, "ADDED", pod("b", "job", reserved="k2", gated=True)), (9, "MODIFIED", pod("b", "job", "k2", "k2"))]
    assert any("1 of 2 pods were bound" in sentence for sentence in found(life("a", "job", "k1", 0) + late))


def test_a_part_of_a_gang_that_is_bound_at_the_end_is_found():
    events = life("a", "job", "k1", 0)[:3] + [(20, "ADDED", pod("other", gpus=0))]
    assert any("1 of 2 pods were bound for 18.0 s" in sentence for sentence in found(events))


def test_a_gang_that_was_released_in_time_is_left_alone():
    gone = [(6, "DELETED", pod("a", "job", "k1", "k1")), (30, "ADDED", pod("other", gpus=0))]
    assert found(life("a", "job", "k1", 0)[:3] + gone) == []


def test_a_reservation_that_is_left_is_found():
    for left in (pod("a", "job", reserved="k1", gated=True), pod("a", "job", reserved="k1")):
        assert any("still reserves k1" in sentence for sentence in found([(0, "ADDED", left)]))
