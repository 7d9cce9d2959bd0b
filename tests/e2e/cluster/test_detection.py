"""Seconds until the coordinator knows of a member that fell silent: a pulled cable and a node without power.

LOCKSTEP_DETECTIONS is how often each happens (`make soak`: 10), LOCKSTEP_DETECT_SECONDS what the median may be. The
short form runs beside other tests, the long form has the machine to itself."""

import os
import statistics
import time

import pytest

import lockstep_cluster.layout
import lockstep_cluster.network
import lockstep_cluster.nodes

import e2e
from gang import FLAGS, Gang

DETECTIONS = int(os.environ.get("LOCKSTEP_DETECTIONS", "1"))
BOUND = float(os.environ.get("LOCKSTEP_DETECT_SECONDS", "4.5"))
PACE = 0.05
# Seconds until the coordinator has received enough heartbeats of a new member to judge its silence by them. The short
# form
# does not wait for that.
KNOWN = 35 if DETECTIONS > 1 else 3


@pytest.fixture
def gang(cluster, job):
    """Three pods, one on each node."""
    found = Gang(cluster, job, "silence", *FLAGS, pace=PACE, steps=1_000_000, gpusPerNode=8)
    return found


def node_without_operator(gang):
    """A node of the gang whose loss costs no operator."""
    operating = {pod["spec"]["nodeName"]
                 for pod in gang.cluster.get("pods", "-n", e2e.NAMESPACE)["items"]
                 if "deletionTimestamp" not in pod["metadata"]}
    return sorted({pod["spec"]["nodeName"] for pod in gang.cluster.by_slot(gang.name).values()} - operating)[0]


def known_after(gang, generation, begun):
    """Seconds from `begun` until the job's status has the loss."""
    def look():
        attempts = gang.status().get("attempts", [])
        return attempts and attempts[-1]["generation"] >= generation and time.monotonic()

    return gang.cluster.wait_for(gang.name, "the loss is known", look, deadline=60, every=0.005) - begun


def test_a_pulled_cable_and_a_powered_off_node_are_known_soon(gang):
    plan = lockstep_cluster.layout.Cluster(gang.cluster.name)
    node = node_without_operator(gang)
    took = {"a cable is pulled": [], "a node is powered off": []}
    for _ in range(DETECTIONS):
        gang.makes_steps(KNOWN / PACE)
        with gang.fault("a cable is pulled") as generation:
            begun = time.monotonic()
            lockstep_cluster.network.set_cable(plan, node, up=False)
            try:
                took["a cable is pulled"].append(known_after(gang, generation, begun))
            finally:
                lockstep_cluster.network.set_cable(plan, node, up=True)
        # The silence of that cable was longer than the member's heartbeats are apart, and would count for ten minutes.
        with gang.fault("its pod is replaced"):
            gang.replace(node)
        gang.makes_steps(KNOWN / PACE)
        with gang.fault("a node is powered off") as generation:
            begun = time.monotonic()
            lockstep_cluster.nodes.power_off(plan, node)
            try:
                took["a node is powered off"].append(known_after(gang, generation, begun))
            finally:
                gang.cluster.command("power-on", node)
    for what, seconds in took.items():
        print(f"\n{what}, {len(seconds)} times: known after {statistics.median(seconds):.2f} s (median; "
              f"{min(seconds):.2f} to {max(seconds):.2f})", end="")
    assert all(statistics.median(seconds) <= BOUND for seconds in took.values()), took
