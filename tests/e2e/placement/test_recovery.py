"""The time until the successor of a deleted pod is bound, with Lockstep and with kube-scheduler choosing its node.

LOCKSTEP_RECOVERIES is how many pods each side loses, in turn. Each is of a job of its own, because a job's second
restart waits.
"""

import statistics
import time

import placed

ROUNDS = placed.RECOVERIES
ALLOWED = 0.15  # seconds beyond what it takes without placement


def seconds_to_successor(cluster, watches, api, name):
    """From the request that deletes the pod of slot 1 until the watch shows its successor bound."""
    old = cluster.by_slot(name)[1]["metadata"]

    def successor(events):
        return any(
            placed.job_of(pod) == name
            and pod["metadata"]["labels"]["lockstep.dev/slot"] == "1"
            and pod["metadata"]["uid"] != old["uid"]
            and placed.node_of(pod)
            for _, pod in reversed(events[-40:])
        )

    begun = time.monotonic()
    api.call("DELETE", f"/api/v1/namespaces/default/pods/{old['name']}?gracePeriodSeconds=0")
    watches["pods"].wait(f"{name}: the successor is bound", "default", successor, 30)
    return time.monotonic() - begun


def test_a_successor_is_bound_as_soon_as_without_placement(cluster, operator, watches, job):
    names = {}
    for number in range(ROUNDS):
        for backend in ("Lockstep", "None"):
            names[backend, number] = job(
                placed.simulated(f"{backend.lower()}-{number}", 2, 1, "recovery", scheduling={"backend": backend})
            )
    for name in names.values():
        cluster.wait_for(
            name,
            "it is placed",
            lambda at=name: placed.condition(cluster.job(at), "Placed").get("status") == "True",
            40,
        )
    api = placed.client(cluster)
    took = {"Lockstep": [], "None": []}
    for number in range(ROUNDS):
        for backend in sorted(took, reverse=number % 2):
            took[backend].append(seconds_to_successor(cluster, watches, api, names[backend, number]))
    api.close()
    print(
        "".join(
            f"\nbackend {backend}: " + ", ".join(f"{1000 * seconds:.0f}" for seconds in found) + " ms"
            for backend, found in took.items()
        )
    )
    assert statistics.median(took["Lockstep"]) <= statistics.median(took["None"]) + ALLOWED
