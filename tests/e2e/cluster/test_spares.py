"""A job with a spare: when a pod is lost, the spare takes its place at once, and the replacement is the next spare."""

import time

import pytest

import e2e
import jobs

FLAGS = jobs.mlp(2000)


@pytest.fixture(scope="module")
def digest():
    """Of the state at the end of an undisturbed run of one process."""
    return e2e.trainer_result(e2e.run(e2e.BUILD / "bin/lockstep-trainer", *FLAGS, deadline=600).stdout)["digest"]


def by_slot(cluster, name):
    return {slot: pod["metadata"]["name"] for slot, pod in cluster.by_slot(name).items()}


def gang_and_spare(cluster, name):
    """Slots of the generation in force, and the one beside it. The first members to connect form the first
    generation."""
    gang = cluster.gang(name)
    (spare,) = set(by_slot(cluster, name)) - set(gang)
    return gang, spare


def runs(cluster, name, generation):
    """The status, once the job runs in that generation or a later one."""
    found = cluster.job(name)
    status = found["status"]
    return status if status["membershipGeneration"] >= generation and "Running" in e2e.true_conditions(found) else None


def has_spare(cluster, name):
    status = cluster.job(name)["status"]
    return status if status["nodes"].get("spare") == 1 and status["nodes"]["summary"] == "2/2" else None


def said_of(cluster, name, reason):
    """What an event of that reason says of the job; None while there is none."""
    found = cluster.get("events", "--field-selector", f"involvedObject.name={name},reason={reason}")["items"]
    return found[0]["message"] if found else None


def test_a_spare_replaces_a_deleted_pod_whose_successor_is_the_next_spare(cluster, job, digest):
    name = job(jobs.trainer("spare", *FLAGS, jobs.pace(0.015), nodes=2, spares={"nodes": 1}))
    cluster.wait_condition(name, "Running", deadline=90)
    status = cluster.wait_for(name, "the spare is there", lambda: has_spare(cluster, name), deadline=60)
    assert status["worldSize"] == 2 and len(cluster.pods(name)) == 3

    gang, spare = gang_and_spare(cluster, name)
    lost = gang[-1]
    since = time.monotonic()
    victim = by_slot(cluster, name)[lost]
    cluster.kubectl("delete", "pod", victim, "--wait=false")
    status = cluster.wait_for(name, "it runs again", lambda: runs(cluster, name, 2), deadline=60)
    print(f"\n{name}: running with its spare {time.monotonic() - since:.2f} s after a pod was deleted: "
          f"{status['attempts'][-1]}")
    assert [attempt["cause"] for attempt in status["attempts"]] == ["PodDeleted"]
    assert status["worldSize"] == 2
    generation = status["membershipGeneration"]  # numbers of proposals that came to nothing are left out
    status = cluster.wait_for(name, "there is a spare again", lambda: has_spare(cluster, name), deadline=60)
    slots = by_slot(cluster, name)
    assert slots[lost] != victim and len(slots) == 3
    assert gang_and_spare(cluster, name) == (sorted([gang[0], spare]), lost)
    assert status["membershipGeneration"] == generation, "nobody has been disturbed for the new pod"
    assert "received the state of step" in cluster.kubectl("logs", slots[spare], "-c", "trainer").stdout

    cluster.kubectl("delete", "pod", slots[lost], "--wait=false")  # which is the spare now
    cluster.wait_for(name, "it is recreated", lambda: by_slot(cluster, name).get(lost) not in (None, slots[lost]),
                     deadline=60)
    found = cluster.wait_condition(name, "Succeeded", deadline=300)
    assert [attempt["cause"] for attempt in found["status"]["attempts"]] == ["PodDeleted", "Completed"]
    assert found["status"]["restarts"]["total"] == 1
    assert cluster.trainer_result(name)["digest"] == digest


def test_a_member_leaves_a_sick_node_and_its_successor_goes_elsewhere(cluster, job, digest):
    # kube-scheduler spreads the three pods, so that one node is one member.
    name = job(jobs.trainer("leave", *FLAGS, jobs.pace(0.025), nodes=2, spares={"nodes": 1},
                            scheduling={"backend": "None"}))
    cluster.wait_condition(name, "Running", deadline=90)
    cluster.wait_for(name, "the spare is there", lambda: has_spare(cluster, name), deadline=60)
    gang, spare = gang_and_spare(cluster, name)
    slots = by_slot(cluster, name)
    nodes = {slot: pod["spec"]["nodeName"] for slot, pod in cluster.by_slot(name).items()}
    left = next(slot for slot in gang if list(nodes.values()).count(nodes[slot]) == 1)
    (stays,) = set(gang) - {left}
    victim, node = slots[left], nodes[left]
    since = time.monotonic()
    cluster.kubectl("label", "node", node, f"{e2e.SICK}=yes")
    try:
        status = cluster.wait_for(name, "it runs without that pod", lambda: runs(cluster, name, 2), deadline=60)
        attempt = status["attempts"][-1]
        took = time.monotonic() - since
        print(f"\n{name}: running with its spare {took:.2f} s after its node was called sick: {attempt}")
        assert (attempt["cause"], attempt["counted"], attempt["node"]) == ("Unhealthy", False, node)
        assert attempt["message"] == f"pod {victim} leaves node {node}: the node has label:{e2e.SICK}"
        assert cluster.gang(name) == sorted([stays, spare])
        cluster.wait_for(name, "there is a spare again", lambda: has_spare(cluster, name), deadline=60)
        assert node not in {pod["spec"]["nodeName"] for pod in cluster.by_slot(name).values()}
        found = cluster.wait_condition(name, "Succeeded", deadline=300)
    finally:
        cluster.kubectl("label", "node", node, f"{e2e.SICK}-")
    assert [attempt["cause"] for attempt in found["status"]["attempts"]] == ["Unhealthy", "Completed"]
    assert found["status"]["restarts"].get("charged", 0) == 0
    assert "Unhealthy" in cluster.kubectl("describe", "trainingjob", name).stdout
    explained = e2e.run(e2e.BUILD / "bin/lockstep", "explain", name, env=cluster.env).stdout
    assert f"pod {victim} leaves node {node}: the node has label:{e2e.SICK}" in explained, explained
    assert cluster.trainer_result(name)["digest"] == digest


def test_a_member_leaves_for_a_node_that_is_reserved_for_its_successor(cluster, job, digest):
    # Without a spare, and with one pod on a node: of the three nodes that run pods, one is free.
    name = job(jobs.trainer("moves", *FLAGS, jobs.pace(0.025), nodes=2, scheduling={"backend": "Lockstep"},
                            placement={"exclusive": True}))
    cluster.wait_condition(name, "Running", deadline=90)
    slots = cluster.by_slot(name)
    victim, node = slots[1]["metadata"]["name"], slots[1]["spec"]["nodeName"]
    nodes = {found["metadata"]["name"] for found in cluster.get("nodes")["items"]}
    taken = {pod["spec"]["nodeName"] for pod in slots.values()}
    (free,) = {each for each in nodes - taken if not each.startswith("kwok-")}
    since = time.monotonic()
    cluster.kubectl("label", "node", node, f"{e2e.SICK}=yes")
    try:
        status = cluster.wait_for(name, "it runs with the successor", lambda: runs(cluster, name, 2), deadline=120)
        attempt = status["attempts"][-1]
        took = time.monotonic() - since
        print(f"\n{name}: running on the reserved node {took:.2f} s after its node was called sick: {attempt}")
        assert (attempt["cause"], attempt["counted"], attempt["node"]) == ("Unhealthy", False, node)
        assert attempt["message"] == f"pod {victim} leaves node {node}: the node has label:{e2e.SICK}"
        assert cluster.by_slot(name)[1]["spec"]["nodeName"] == free
        found = cluster.wait_condition(name, "Succeeded", deadline=300)
    finally:
        cluster.kubectl("label", "node", node, f"{e2e.SICK}-")
    assert [attempt["cause"] for attempt in found["status"]["attempts"]] == ["Unhealthy", "Completed"]
    assert found["status"]["restarts"].get("charged", 0) == 0
    assert cluster.trainer_result(name)["digest"] == digest


def test_a_foreign_program_restarts_with_the_spare_and_awaits_no_new_pod(cluster, job):
    # It runs until it is told to end; a shell runs its trap between two commands, so each is short. No one waits for
    # this loop.
    script = 'echo "rank $RANK of $WORLD_SIZE"; trap "exit 1" TERM; while :; do sleep 0.1; done'
    name = job(jobs.shell("foreign-spare", script, nodes=2, spares={"nodes": 1}))
    cluster.wait_condition(name, "Running", deadline=90)
    cluster.wait_for(name, "the spare is there", lambda: has_spare(cluster, name), deadline=60)
    gang, spare = gang_and_spare(cluster, name)
    cluster.kubectl("delete", "pod", by_slot(cluster, name)[gang[0]], "--grace-period=1", "--wait=false")
    status = cluster.wait_for(name, "it runs again", lambda: runs(cluster, name, 2), deadline=60)
    assert [attempt["cause"] for attempt in status["attempts"]] == ["PodDeleted"]
    log = cluster.kubectl("logs", by_slot(cluster, name)[max(gang[1], spare)], "-c", "trainer").stdout
    assert "rank 1 of 2" in log, log


def test_nobody_leaves_when_four_of_ten_nodes_turn_bad_at_once(cluster, job):
    # Last of this file: for a minute, a node that becomes sick would be one of many. The job ends when it is deleted.
    name = job(jobs.trainer("stay", *jobs.mlp(1_000_000), jobs.pace(0.01), nodes=2, spares={"nodes": 1},
                            scheduling={"backend": "None"}))
    cluster.wait_condition(name, "Running", deadline=90)
    cluster.wait_for(name, "the spare is there", lambda: has_spare(cluster, name), deadline=60)
    gang, spare = gang_and_spare(cluster, name)
    pods = cluster.by_slot(name)
    uids = {pod["metadata"]["uid"] for pod in pods.values()}
    generation = cluster.job(name)["status"]["membershipGeneration"]
    of_members = {pods[slot]["spec"]["nodeName"] for slot in gang} - {pods[spare]["spec"]["nodeName"]}
    assert of_members, "a member's node has to be sick while the spare's is well"
    nodes = {node["metadata"]["name"] for node in cluster.read("/api/v1/nodes")["items"]}
    kwok = sorted(node for node in nodes if node.startswith("kwok-"))
    sick = kwok[:4 - len(of_members)] + sorted(of_members)  # the third to be labelled makes them many
    assert len(nodes) == 10 and len(sick) == 4
    since = time.monotonic()
    cluster.kubectl("label", "node", *sick, f"{e2e.SICK}=yes")
    try:
        # The operator says it when the first of them would have left, had it been alone.
        said = cluster.wait_for(name, "it says why nobody leaves", lambda: said_of(cluster, name, "ManyNodesSick"), 30)
        print(f"\n{name}: {time.monotonic() - since:.2f} s after {sick} were called sick: {said}")
        # Whose node was labelled first is told first.
        assert said in {f"pod {pod['metadata']['name']} stays on node {pod['spec']['nodeName']}: the node has "
                        f"label:{e2e.SICK}, but more than 20 % of all nodes became sick together"
                        for pod in pods.values() if pod["spec"]["nodeName"] in of_members}
        speaks = pods[cluster.slots_by_rank(name)[0]]["metadata"]["name"]
        step = cluster.logged_step(name, pod=speaks)
        cluster.wait_for(name, "200 steps more", lambda: cluster.logged_step(name, pod=speaks) >= step + 200)
        assert {pod["metadata"]["uid"] for pod in cluster.pods(name)} == uids == \
            {pod["metadata"]["uid"] for pod in cluster.by_slot(name).values()}, "no pod has left or is about to"
        status = cluster.job(name)["status"]
        assert (status["membershipGeneration"], status.get("attempts", [])) == (generation, [])
    finally:
        cluster.kubectl("label", "node", *sick, f"{e2e.SICK}-")
