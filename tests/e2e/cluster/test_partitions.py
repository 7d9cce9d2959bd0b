"""Networks that carry a part of the traffic: no agent reaches the coordinator; two pods reach everything but each
other; a newcomer does not reach all of the others."""

import contextlib
import ipaddress
import json
import time

import e2e
from gang import FLAGS, Gang, reference

PACE = 0.05
STEPS = 3000
AWAY = 15  # seconds: longer than any silence that costs a member, and than a connection without a word may last


@contextlib.contextmanager
def dropped(cluster, *flows):
    """Packets of these flows, each a node and what iptables knows them by, are lost there before they are routed."""
    def change(how, node, *words):
        cluster.command("exec", node, "--", "iptables", "-w", "-t", "raw", how, "PREROUTING", *words, "-j", "DROP")

    with contextlib.ExitStack() as healed:
        for flow in flows:
            change("-A", *flow)
            healed.callback(change, "-D", *flow)
        yield


def address(pod):
    return pod["status"]["podIP"]


def network(pod):
    """Of all pods of its node."""
    return str(ipaddress.ip_network(address(pod) + "/24", strict=False))


def told(gang):
    return gang.status().get("progress", {}).get("step", 0)


def ends_as_undisturbed(gang, alone):
    """Has the job finish, with an exact ledger and the bits of the undisturbed run in the folder `alone`."""
    gang.hurry()
    digest = reference(alone, *FLAGS, f"--steps={STEPS}")
    at_the_end = gang.finish()
    result = e2e.ledger_verdict(gang.ledgers.folder, alone)
    gang.print_table(result, alone)
    assert result.violations == [] and result.superseded == 0
    assert at_the_end == digest


def test_a_cut_off_coordinator_loses_no_member_and_one_of_two_pods_moves(cluster, job, tmp_path):
    gang = Gang(cluster, job, "cut-off", *FLAGS, pace=PACE, steps=STEPS, nodes=2, elastic=False,
                gpusPerNode=8, deadlines={"progressSeconds": 3})
    gang.makes_steps(60)
    pods = [gang.pod(slot) for slot in range(2)]
    nodes = [pod["spec"]["nodeName"] for pod in pods]

    with gang.fault("the coordinator is cut off", costs_a_member=False):
        begun = time.monotonic_ns()
        to_it = ("-p", "tcp", "--dport", "7077")
        with dropped(cluster, *((node, "-s", address(pod), *to_it) for node, pod in zip(nodes, pods))):
            gang.until("that time has passed", lambda: time.monotonic_ns() > begun + AWAY * 1e9, deadline=AWAY + 10)
            ahead = gang.ledgers.step() - told(gang)
        away = begun, time.monotonic_ns()
        assert ahead > 0.5 * AWAY / PACE, f"the job's status is {ahead} steps behind: the coordinator was not cut off"
        step = gang.ledgers.step()
        e2e.wait_for("the agents are back", lambda: told(gang) > step, deadline=40)

    with gang.fault("two pods do not reach one another") as generation:
        with dropped(cluster, (nodes[0], "-s", address(pods[0]), "-d", address(pods[1])),
                     (nodes[1], "-s", address(pods[1]), "-d", address(pods[0]))):
            gang.until("all train again", lambda: gang.ledgers.trains_with(2, generation), deadline=120)
    attempts = gang.rows[-1][3]
    told_of = [[attempt[field] for field in ("generation", "cause", "strategy", "message")] for attempt in attempts]
    assert len(attempts) == 2, json.dumps(told_of, indent=1)
    first, second = attempts
    assert (first["cause"], first["strategy"]) == ("ConnectionBroken", "InPlace"), first
    assert (second["cause"], second["strategy"], second["counted"]) == ("Partitioned", "ReplaceFailed", False), second
    for pod, node in zip(pods, nodes):
        assert f"(pod {pod['metadata']['name']}, node {node})" in second["message"], second
    stays, moves = (0, 1) if second["node"] == nodes[1] else (1, 0)
    assert second["pod"] == pods[moves]["metadata"]["name"]
    assert gang.pod(stays)["metadata"]["uid"] == pods[stays]["metadata"]["uid"]
    assert gang.pod(moves)["spec"]["nodeName"] not in nodes, "there is a node without a bad link"

    ends_as_undisturbed(gang, tmp_path / "alone")
    longest = gang.stood_still(*away)
    print(f"the longest gap while the coordinator was cut off: {1000 * longest:.0f} ms")
    assert longest <= gang.longest_allowed()


def test_a_newcomer_joins_once_it_reaches_all_peers_and_no_rank_stops(cluster, job, tmp_path):
    gang = Gang(cluster, job, "newcomer", *FLAGS, pace=PACE, steps=STEPS, gpusPerNode=8)
    gang.makes_steps(40)
    first, last = gang.pod(0), gang.pod(2)
    here, there, its, other = first["spec"]["nodeName"], last["spec"]["nodeName"], address(first), network(last)
    but_the_coordinator = ("-p", "tcp", "!", "--sport", "7077")  # it may run on either node
    with gang.fault("a pod is deleted, its successor cut off") as generation:
        cluster.kubectl("delete", "pod", gang.pod(2)["metadata"]["name"], "--wait=false")
        gang.until("the others go on", lambda: gang.ledgers.trains_with(2, generation))
        with dropped(cluster, (here, "-s", its, "-d", other), (there, "-s", other, "-d", its, *but_the_coordinator)):
            begun = time.monotonic_ns()

            def left_out():
                conditions = gang.status()["conditions"]
                return next(condition["message"] for condition in conditions if condition["type"] == "Running")

            sentence = gang.until("it is left out", lambda: "is not taken in" in left_out() and left_out(), deadline=60)
            gang.makes_steps(60)
            ended, smaller = time.monotonic_ns(), gang.ledgers.generation()
            assert gang.ledgers.trains_with(2), "the two train on"
        for part in ("slot 2 is not taken in, because it does not reach", "no answer within 2 s"):
            assert part in sentence, sentence
        gang.until("it is taken in", lambda: gang.ledgers.trains_with(3, smaller), deadline=90)
    ends_as_undisturbed(gang, tmp_path / "alone")
    longest = gang.stood_still(begun, ended)
    print(f"the longest gap of the others while it was cut off: {1000 * longest:.0f} ms")
    assert longest <= gang.longest_allowed()
