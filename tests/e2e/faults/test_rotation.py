"""The coordinator's authority is replaced while a gang trains: no healthy member loses its connection. 45 s."""

import re

import e2e
import gang as gangs

NODES = 3
SETTLES = 30  # seconds for which new pods trust both authorities before the old one may go


def secret(cluster):
    return cluster.read("/api/v1/namespaces/default/secrets/lockstep-coordinator-ca")["data"]


def trusted(pod):
    """How many authorities the pod trusts, by its labels."""
    return sum(label.startswith("lockstep.dev/trusts-") for label in pod["metadata"]["labels"])


class Connections:
    """The operator's log lines about the agents' connections."""

    def __init__(self, operator):
        self._operator = operator

    def lost(self, pod):
        """How often the connection of that pod's agent ended."""
        ended = rf"an agent's connection (?:ended|is closed) pod=default/{pod['metadata']['name']}\b"
        return len(re.findall(ended, self._operator.log()))

    def made(self, pod):
        return len(re.findall(rf"an agent connected pod=default/{pod['metadata']['name']}\b", self._operator.log()))


def replace_pod(cluster, gang, connections, slot):
    """Deletes the pod of a slot; the others keep their pods and their connections. Returns its successor."""
    generation = gang.ledgers.read().generation()
    others = [gang.pod(other) for other in range(NODES) if other != slot]
    cluster.kubectl("delete", "pod", gang.pod(slot)["metadata"]["name"], "--grace-period=1", "--wait=false")
    gang.whole_again(generation)
    for pod in others:
        number = int(pod["metadata"]["labels"]["lockstep.dev/slot"])
        assert gang.pod(number)["metadata"]["uid"] == pod["metadata"]["uid"]
        assert (connections.made(pod), connections.lost(pod)) == (1, 0), pod["metadata"]["name"]
    return gang.pod(slot)


def test_the_authority_rotates_under_a_gang_that_trains(cluster, job, start):
    operator = start()
    operator.wait_until_ready()
    gang = gangs.Gang(cluster, job, "rotation", *gangs.FLAGS, pace=0.05, steps=100_000, nodes=NODES, elastic=False)
    connections = Connections(operator)
    old = secret(cluster)["tls.crt"]
    assert {trusted(gang.pod(slot)) for slot in range(NODES)} == {1}

    with gang.fault("the authority begins to rotate", costs_a_member=False):
        cluster.kubectl("annotate", "secret", "lockstep-coordinator-ca", "lockstep.dev/rotate=now")
        new = e2e.wait_for("the next authority is made", lambda: secret(cluster).get("next.crt"), 10)
        gang.makes_steps(20)
    for slot in range(NODES):
        assert operator.log().count("the authority has been replaced") == 0, "a pod of the old authority is there"
        assert trusted(replace_pod(cluster, gang, connections, slot)) == 2

    with gang.fault("the old authority goes", costs_a_member=False):
        e2e.wait_for("the next authority is the current one", lambda: secret(cluster)["tls.crt"] == new, SETTLES + 15)
        assert new != old and "next.crt" not in secret(cluster)
        e2e.wait_for("the coordinator serves with it", lambda: "the authority has been replaced" in operator.log(), 5)
        gang.makes_steps(40)
    for slot in range(NODES):
        assert (connections.made(gang.pod(slot)), connections.lost(gang.pod(slot))) == (1, 0)

    successor = replace_pod(cluster, gang, connections, 1)
    assert trusted(successor) == 1, "it knows the new authority alone"

    with gang.fault("the operator is replaced", costs_a_member=False):
        assert operator.stop() == 0
        later = start()
        later.wait_until_ready()
        back = Connections(later)
        e2e.wait_for("every agent is back", lambda: all(back.made(gang.pod(slot)) for slot in range(NODES)), 30)
        gang.makes_steps(20)
    assert gang.status()["restarts"]["total"] == NODES + 1
