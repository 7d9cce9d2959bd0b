"""A node that a tool calls dead by a label, while its kubelet and the agent of its pod still speak."""

import time

import e2e
from gang import FLAGS, Gang, reference

STEPS = 2000


def has_spare(cluster, name):
    nodes = cluster.job(name)["status"]["nodes"]
    return nodes.get("spare") == 1 and nodes["summary"] == "2/2"


def test_a_node_that_is_called_dead_is_lost_at_once_with_an_exact_ledger(cluster, job, tmp_path):
    # kube-scheduler spreads the three pods, so that one node is one member.
    gang = Gang(cluster, job, "dead", *FLAGS, pace=0.02, steps=STEPS, nodes=2, elastic=False, spares={"nodes": 1},
                scheduling={"backend": "None"})
    name = gang.name
    cluster.wait_for(name, "the spare is there", lambda: has_spare(cluster, name), deadline=60)
    members = cluster.gang(name)
    pods = cluster.by_slot(name)
    (spare,) = set(pods) - set(members)
    nodes = {slot: pod["spec"]["nodeName"] for slot, pod in pods.items()}
    lost = next(slot for slot in members if list(nodes.values()).count(nodes[slot]) == 1)
    (stays,) = set(members) - {lost}
    victim, node = pods[lost]["metadata"]["name"], nodes[lost]
    generation = gang.ledgers.read().generation()
    begun = time.monotonic()
    cluster.kubectl("label", "node", node, f"{e2e.DEAD}=yes")
    try:
        gang.until("the spare trains in its place", lambda: gang.ledgers.trains_with(2, generation, steps=1))
        took = time.monotonic() - begun
        assert cluster.gang(name) == sorted([stays, spare])
        attempt = gang.status()["attempts"][-1]
        print(f"\n{name}: trains with its spare {took:.2f} s after its node was called dead: {attempt}")
        assert (attempt["cause"], attempt["counted"], attempt["node"]) == ("NodeLost", False, node)
        assert attempt["message"] == f"node {node} of pod {victim} counts as lost: it has label:{e2e.DEAD}"
        e2e.wait_for("its processes have ended",
                     lambda: not e2e.processes("lockstep-trainer", LOCKSTEP_POD_NAME=victim), deadline=10)
        cluster.wait_for(name, "there is a spare again", lambda: has_spare(cluster, name), deadline=60)
        assert node not in {pod["spec"]["nodeName"] for pod in cluster.by_slot(name).values()}
        assert f"label:{e2e.DEAD}" in cluster.kubectl("describe", "trainingjob", name).stdout
        gang.hurry()
        digest = reference(tmp_path / "alone", *FLAGS, f"--steps={STEPS}")
        at_the_end = gang.finish()
    finally:
        cluster.kubectl("label", "node", node, f"{e2e.DEAD}-")
    status = gang.status()
    assert [attempt["cause"] for attempt in status["attempts"]] == ["NodeLost", "Suspended", "Completed"]
    assert status["restarts"].get("charged", 0) == 0
    result = e2e.ledger_verdict(gang.ledgers.folder, tmp_path / "alone")
    assert result.violations == []
    assert at_the_end == digest
