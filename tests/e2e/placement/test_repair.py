"""The operator places a pod that stays unbound on its node again within 10 s. A gang that cannot become whole gives
its nodes back. The job is charged nothing: no attempt, no restart. Nodes that refuse pods are in test_killed.py."""

import contextlib
import time

import placed

REPAIR = 10  # seconds


def of_job(events, name):
    return [pod for _, pod in events if placed.job_of(pod) == name]


def newest(events, name):
    """The newest state of each pod of a job that is there, by name."""
    found = {}
    for kind, pod in events:
        if placed.job_of(pod) == name:
            found[pod["metadata"]["name"]] = None if kind == "DELETED" else pod
    return {key: pod for key, pod in found.items() if pod}


def bound(name, pods):
    def look(events):
        found = newest(events, name)
        return (
            found
            if len([pod for pod in found.values() if placed.node_of(pod) and placed.phase(pod) != "Failed"]) == pods
            else None
        )

    return look


def first_time(watches, name, holds):
    """When the watch first saw a pod of a job for which that holds."""
    return min(seconds for seconds, _, pod in watches["pods"].all_events() if placed.job_of(pod) == name and holds(pod))


def is_unschedulable(pod):
    return any(condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable"
               for condition in pod["status"].get("conditions", []))


def nothing_was_charged(cluster, name):
    found = cluster.wait_for(
        name,
        "condition Placed is True",
        lambda: placed.condition(cluster.job(name), "Placed").get("status") == "True" and cluster.job(name),
        20,
    )
    assert placed.charged(found) == []
    return found


@contextlib.contextmanager
def repelled(cluster, node, name):
    """kube-scheduler binds no pod of that job to the node, because a pod on it wants none beside it. The placer does
    not look at affinity between pods, so it chooses the node all the same."""
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"lockstep.dev/job": name}}}]}}
    cluster.apply(
        placed.plain_pod(f"repels-{name}", 0, nodeName=node, affinity=affinity, tolerations=[placed.tolerates_fleet()])
    )
    try:
        yield
    finally:
        cluster.kubectl("delete", "pod", f"repels-{name}", "--grace-period=0", "--force", "--ignore-not-found")


def ever_reserved(watches, name):
    return {placed.reserved(pod) for pod in of_job(watches["pods"].events("default"), name)}


def test_a_pod_that_stays_unbound_is_placed_on_another_node(cluster, operator, watches, pools, job):
    broken = pools["repair"][1]
    with repelled(cluster, broken, "unbindable"):
        name = job(placed.simulated("unbindable", 2, placed.GPUS, "repair"))
        later = watches["pods"].wait("both pods are bound", "default", bound(name, 2), 30)
        took = time.monotonic() - first_time(watches, name, is_unschedulable)
        assert nothing_was_charged(cluster, name)["status"]["incarnation"] == 1
    print(f"\nbound {took:.1f} s after kube-scheduler found no room on {broken}")
    assert broken in ever_reserved(watches, name)
    assert broken not in {placed.node_of(pod) for pod in later.values()}
    assert took <= REPAIR


def test_a_gang_that_cannot_be_whole_gives_its_nodes_back(cluster, operator, watches, pools, job):
    timeout = 10
    (spare,) = pools["spare"]
    with contextlib.ExitStack() as undo:
        undo.enter_context(repelled(cluster, pools["pair"][0], "released"))
        name = job(placed.simulated("released", 2, placed.GPUS, "pair", placement={"gangTimeoutSeconds": timeout}))
        watches["pods"].wait("a pod is bound", "default", bound(name, 1), 20)
        watches["pods"].wait("no pod is left", "default", lambda events: not newest(events, name), timeout + 30)
        held = time.monotonic() - first_time(watches, name, placed.node_of)
        print(f"\none of two pods was bound for {held:.1f} s; the timeout is {timeout} s")
        assert timeout - 1 <= held <= timeout + 5
        placed.label(cluster, {spare: {placed.POOL: "pair"}})
        undo.callback(placed.label, cluster, {spare: {placed.POOL: "spare"}})
        watches["pods"].wait("both pods are bound", "default", bound(name, 2), 40)
        assert nothing_was_charged(cluster, name)["status"]["incarnation"] == 2
