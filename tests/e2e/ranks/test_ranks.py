"""Ranks follow the racks of the nodes, through a killed rank, a replaced node, a killed leader and a node without
power. 90 s."""

import re

import binder
import e2e
import gang as gangs
import jobs

SLOTS = 6
LABEL = "example.com/rack"
RACKS = {"n1": "a", "n2": "b", "n3": "a", "n4": "b"}
NODES = ["n1", "n2", "n3", "n4", "n1", "n2"]  # by slot: the racks a b a b a b
STEPS = 3_000


def crossings(nodes):
    """How often a ring over pods on these nodes goes from one rack to the other."""
    return sum(RACKS[a] != RACKS[b] for a, b in zip(nodes, nodes[1:] + nodes[:1]))


def ranks_in_logs(cluster, gang, generation):
    """The slots by rank, as the agents told their logs when that generation started."""
    found = {}
    for slot, pod in cluster.by_slot(gang.name).items():
        log = cluster.kubectl("logs", pod["metadata"]["name"], "-c", "trainer").stdout
        told = re.findall(rf"(?m)^lockstep-agent: generation {generation}: rank (\d+) of {SLOTS}$", log)
        assert len(told) == 1, log
        found[int(told[0])] = slot
    assert sorted(found) == list(range(SLOTS)), found
    return [found[rank] for rank in range(SLOTS)]


def look(cluster, gang):
    """The slots by rank of the generation in force: logs, record and `status` agree, and the ring crosses twice."""
    generation = gang.ledgers.read().generation()
    slots = ranks_in_logs(cluster, gang, generation)
    assert cluster.slots_by_rank(gang.name) == slots
    pods = cluster.by_slot(gang.name)
    nodes = [pods[slot]["spec"]["nodeName"] for slot in slots]
    said = e2e.run(e2e.BUILD / "bin/lockstep", "status", gang.name, "--kubeconfig", cluster.kubeconfig).stdout
    rows = re.findall(r"(?m)^(\d+) +(\S+) +(\S+)$", said)
    assert rows == [(str(rank), pods[slot]["metadata"]["name"], nodes[rank]) for rank, slot in enumerate(slots)], said
    print(f"\ngeneration {generation}: slots {slots} on {nodes}: {crossings(nodes)} crossings")
    assert crossings(nodes) == 2
    return slots


def test_a_ring_crosses_two_racks_twice_whatever_happens_to_the_gang(cluster, start, job, tmp_path):
    for node, rack in RACKS.items():
        cluster.kubectl("label", "node", node, f"{LABEL}={rack}", "--overwrite")
    assert crossings(NODES) >= 4, "in order of slots"
    flags = (f"--topology-level=rack={LABEL}",)
    leader, standby = start(flags=flags), start(flags=flags)
    e2e.wait_for("one leads", lambda: leader.leads() or standby.leads(), 40)
    with binder.Binder(cluster, NODES) as bound:
        template = jobs.patient()
        template["spec"]["schedulerName"] = bound.NAME
        gang = gangs.Gang(cluster, job, "racks", *gangs.FLAGS, steps=STEPS, pace=0.05, nodes=SLOTS, elastic=False,
                          podTemplate=template, scheduling={"backend": "None"})
        first = look(cluster, gang)
        assert first == [0, 4, 2, 1, 5, 3], "racks, in them nodes, and on them pods by slot"

        with gang.fault("the process of rank 1 is killed"):
            gang.kill_process(first[1])
        assert gang.rows[-1][3][0]["firstFailingRank"] == 1
        assert look(cluster, gang) == first, "the same pods have the same ranks"

        with gang.fault("a pod moves to another node of its rack"):
            bound.nodes[2] = "n1"
            cluster.kubectl("delete", "pod", gang.pod(2)["metadata"]["name"], "--wait=false")
        assert gang.rows[-1][3][0]["firstFailingRank"] == 2
        assert look(cluster, gang) == first, "the successor has the failed rank"

        with gang.fault("a pod moves to the other rack, and the leader is killed meanwhile"):
            bound.nodes[5] = "n3"
            cluster.kubectl("delete", "pod", gang.pod(5)["metadata"]["name"], "--wait=false")
            (leader if leader.leads() else standby).process.kill()
        assert gang.rows[-1][3][0]["firstFailingRank"] == 4
        assert look(cluster, gang) == [0, 4, 2, 5, 1, 3]

        with gang.fault("a node loses its power, and its pod moves to another node of its rack"):
            bound.nodes[3] = "n2"
            cluster.command("power-off", "n4")
        attempt = gang.rows[-1][3][0]
        assert (attempt["cause"], attempt["firstFailingRank"], attempt["node"]) == ("NodeLost", 5, "n4")
        assert look(cluster, gang) == [0, 4, 2, 5, 1, 3], "the successor has the lost rank"

        gang.hurry()
        digest = gangs.reference(tmp_path / "alone", *gangs.FLAGS, f"--steps={STEPS}")
        assert gang.finish() == digest
    assert e2e.ledger_verdict(gang.ledgers.folder, tmp_path / "alone").violations == []
