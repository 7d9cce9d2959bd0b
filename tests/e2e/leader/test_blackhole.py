"""The way to the API server swallows every packet while a gang of 600 is being created. 80 s.

LOCKSTEP_AWAY_SECONDS is how long the outage lasts."""

import os
import re
import time

import jobs
import watch
from way import Way

PODS = 600
# Seconds of the outage: longer than the minute after which a stuck write makes liveness red.
AWAY = int(os.environ.get("LOCKSTEP_AWAY_SECONDS", "65"))
LEASE = AWAY * 2 + 170  # the leader keeps it through the outage: nothing but a red liveness could end the process


def gang(name):
    """Its pods fit on no node, and are created all the same, because Lockstep does not place them."""
    return jobs.training_job(
        name, image="nobody", command=["true"], nodes=PODS, rendezvous={"kind": "None"}, scheduling={"backend": "None"},
        podTemplate={"spec": {"containers": [{"name": "trainer"}], "nodeSelector": {"nowhere": "at-all"}}})


def reconciles_of_a_minute(operator):
    """How many took longer: each held up a worker for the whole time."""
    text = operator.get("/metrics")[1]
    name = "lockstep_operator_reconcile_duration_seconds"
    count, within = (float(re.search(rf"(?m)^{name}_{what} (\S+)", text)[1]) for what in ("count", r'bucket{le="60"}'))
    return count - within


def test_a_leader_outlives_an_api_server_that_vanishes_among_its_creates(cluster, namespace, start):
    kubeconfig = open(cluster.kubeconfig, encoding="utf-8").read()
    way = Way(re.search(r"server: (\S+)", kubeconfig)[1])
    pods = watch.Watch(cluster, f"/api/v1/namespaces/{namespace}/pods")
    operator = start(lease=LEASE, server=way.server)
    try:
        operator.wait_until_ready(120)  # with this Lease a failed try is repeated after 40 s
        cluster.apply(gang("large"), namespace)
        pods.wait("the first pod is created", namespace, lambda events: events, 30)
        with way.cut():
            begun = time.monotonic()
            while time.monotonic() - begun < AWAY:
                health = operator.get("/healthz")
                assert health and health[0] == 200, f"{time.monotonic() - begun:.0f} s into the outage: {health}"
                time.sleep(1)  # the promise is about every second of the outage
            made = {event[1]["metadata"]["name"] for event in pods.events(namespace)}
        assert made and len(made) < PODS, "the way was cut among the creates"
        begun = time.monotonic()
        pods.wait("every pod is created", namespace,
                  lambda events: len({event[1]["metadata"]["name"] for event in events}) >= PODS, 60)
        print(f"\n{len(made)} pods before the outage of {AWAY} s, {PODS - len(made)} within "
              f"{time.monotonic() - begun:.1f} s after it")
        operator.rest()
        events = pods.events(namespace)
        assert not [event for event in events if event[0] == "DELETED"]
        created = [event[1]["metadata"]["labels"] for event in events if event[0] == "ADDED"]
        slots = sorted(int(labels["lockstep.dev/slot"]) for labels in created)
        assert slots == list(range(PODS)), "each slot has one pod"
        assert reconciles_of_a_minute(operator) == 0
        assert operator.process.poll() is None
        assert len(re.findall("leading advertise", operator.log())) == 1, "it is the same process, and led throughout"
    finally:
        pods.stop()
        operator.stop()
        way.close()
        cluster.kubectl("delete", "trainingjobs", "--all", "-n", namespace, "--wait=false", check=False)
        cluster.kubectl("delete", "pods", "--all", "-n", namespace, "--grace-period=0", "--force", "--wait=false",
                        check=False)
