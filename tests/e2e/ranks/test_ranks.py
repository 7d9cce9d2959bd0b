"""Ranks follow the racks of the nodes, through a killed rank, a replaced node and a killed leader. 90 s."""

import json
import re
import threading

import e2e
import gang as gangs
import jobs

SLOTS = 6
LABEL = "example.com/rack"
RACKS = {"n1": "a", "n2": "b", "n3": "a", "n4": "b"}
NODES = ["n1", "n2", "n3", "n4", "n1", "n2"]  # by slot: the racks a b a b a b
STEPS = 3_000


class Binder:
    """Binds pods that name its scheduler, each to the node of its slot; a scheduler that knows nothing of racks. The
    job has backend None: Lockstep would choose other nodes."""

    NAME = "by-slot"

    def __init__(self, cluster):
        self.cluster, self.nodes = cluster, dict(enumerate(NODES))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._bind_all)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _bind_all(self):
        while not self._over.wait(0.1):
            pods = (self.cluster.read("/api/v1/namespaces/default/pods") or {}).get("items", [])
            for pod in pods:
                if (
                    pod["spec"].get("nodeName")
                    or pod["spec"]["schedulerName"] != self.NAME
                    or "deletionTimestamp" in pod["metadata"]
                ):
                    continue
                name, node = pod["metadata"]["name"], self.nodes[int(pod["metadata"]["labels"]["lockstep.dev/slot"])]
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                           "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
                self.cluster.kubectl("create", "--raw", f"/api/v1/namespaces/default/pods/{name}/binding", "-f", "-",
                                     stdin=json.dumps(binding), check=False)


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
    with Binder(cluster) as binder:
        template = jobs.patient()
        template["spec"]["schedulerName"] = Binder.NAME
        gang = gangs.Gang(cluster, job, "racks", *gangs.FLAGS, steps=STEPS, pace=0.05, nodes=SLOTS, elastic=False,
                          podTemplate=template, scheduling={"backend": "None"})
        first = look(cluster, gang)
        assert first == [0, 4, 2, 1, 5, 3], "racks, in them nodes, and on them pods by slot"

        with gang.fault("the process of rank 1 is killed"):
            gang.kill_process(first[1])
        assert gang.rows[-1][3][0]["firstFailingRank"] == 1
        assert look(cluster, gang) == first, "the same pods have the same ranks"

        with gang.fault("a pod moves to another node of its rack"):
            binder.nodes[2] = "n1"
            cluster.kubectl("delete", "pod", gang.pod(2)["metadata"]["name"], "--wait=false")
        assert gang.rows[-1][3][0]["firstFailingRank"] == 2
        assert look(cluster, gang) == first, "the successor has the failed rank"

        with gang.fault("a pod moves to the other rack, and the leader is killed meanwhile"):
            binder.nodes[5] = "n3"
            cluster.kubectl("delete", "pod", gang.pod(5)["metadata"]["name"], "--wait=false")
            (leader if leader.leads() else standby).process.kill()
        assert gang.rows[-1][3][0]["firstFailingRank"] == 4
        assert look(cluster, gang) == [0, 4, 2, 5, 1, 3]

        gang.hurry()
        digest = gangs.reference(tmp_path / "alone", *gangs.FLAGS, f"--steps={STEPS}")
        assert gang.finish() == digest
    assert e2e.ledger_verdict(gang.ledgers.folder, tmp_path / "alone").violations == []
