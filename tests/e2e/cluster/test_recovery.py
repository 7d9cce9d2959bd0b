"""Faults on a real cluster: a process, a pod and a node die, and each job recovers by itself."""

import collections
import time

import e2e
import jobs


def apply(cluster, job, name, steps=400, pace=0.02, **spec):
    cluster.command("volume", "default", f"{name}-state")
    job(jobs.trainer(name, *jobs.small_model(steps, "--deterministic", jobs.pace(pace)), claim=f"{name}-state",
                     restart={"forceDeleteAfterSeconds": 1}, **spec))


def train(cluster, name):
    """Waits until all three pods train and steps are committed; the pods by name."""
    cluster.wait_for(
        name, "all pods train", lambda: cluster.job(name).get("status", {}).get("worldSize") == 3, deadline=90
    )
    cluster.wait_for(name, "40 steps are committed", lambda: cluster.logged_step(name) >= 40, deadline=120, every=0.3)
    return {pod["metadata"]["name"]: pod for pod in cluster.pods(name)}


def recovered(cluster, name, cause, since):
    """Waits until the attempt with that cause is recorded and the job runs in a new generation; prints the seconds."""
    def look():
        found = cluster.job(name)
        attempts = found["status"].get("attempts", [])
        if attempts and attempts[-1]["cause"] == cause and "Running" in e2e.true_conditions(found):
            return found
        return None

    found = cluster.wait_for(name, f"it runs again after {cause}", look, deadline=120)
    attempt = found["status"]["attempts"][-1]
    print(f"\n{name}: {cause}, running again {time.monotonic() - since:.2f} s after the fault; attempt: {attempt}")
    return attempt


def finish(cluster, name):
    found = cluster.wait_condition(name, "Succeeded", deadline=400)
    incarnations = {
        pod["metadata"]["labels"]["lockstep.dev/slot"]: int(pod["metadata"]["labels"]["lockstep.dev/incarnation"])
        for pod in cluster.pods(name)
        if pod["status"]["phase"] != "Failed"
    }
    assert all(value <= found["status"]["incarnation"] for value in incarnations.values())
    return found


def took_the_survivors_state(cluster, pod):
    log = cluster.kubectl("logs", pod, "-c", "trainer").stdout
    assert "received the state of step" in log and "restored" not in log, log


def test_a_killed_process_restarts_in_place_and_no_pod_is_recreated(cluster, job):
    name = "kill-process"
    apply(cluster, job, name)
    pods = train(cluster, name)
    victim = sorted(pods)[1]
    node = pods[victim]["spec"]["nodeName"]
    since = time.monotonic()
    # The trainer is the only process of that pod besides the agent; its pid as the node sees it.
    cluster.command(
        "exec",
        node,
        "--",
        "sh",
        "-c",
        "for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ 2>/dev/null | grep -qx "
        f"LOCKSTEP_POD_NAME={victim} && grep -q lockstep-traine $p/comm && kill -9 ${{p#/proc/}} && exit 0; "
        "done; exit 1",
    )
    attempt = recovered(cluster, name, "ProcessSignal", since)
    assert attempt["firstFailingRank"] == 1
    assert attempt["exitCode"] == 137
    assert attempt["strategy"] == "InPlace"
    finish(cluster, name)
    assert {pod["metadata"]["uid"] for pod in cluster.pods(name)} == {pod["metadata"]["uid"] for pod in pods.values()}
    took_the_survivors_state(cluster, victim)


def test_a_deleted_pod_is_replaced_and_the_others_stay(cluster, job):
    name = "delete-pod"
    apply(cluster, job, name)
    pods = train(cluster, name)
    victim = sorted(pods)[2]
    since = time.monotonic()
    cluster.kubectl("delete", "pod", victim, "--wait=false")
    attempt = recovered(cluster, name, "PodDeleted", since)
    assert attempt["firstFailingRank"] == 2
    assert attempt["pod"] == victim
    finish(cluster, name)
    now = {pod["metadata"]["name"] for pod in cluster.pods(name)}
    assert victim not in now and len(now) == 3
    assert len(now & set(pods)) == 2
    for pod in now - set(pods):
        took_the_survivors_state(cluster, pod)


def went_on_with_fewer(cluster, name, since):
    """Waits until an elastic job runs without one of its pods; prints the seconds, and returns the attempt."""
    def look():
        found = cluster.job(name)
        status = found["status"]
        return (
            status
            if status.get("attempts") and status["worldSize"] == 2 and "Running" in e2e.true_conditions(found)
            else None
        )

    status = cluster.wait_for(name, "it runs with two", look, deadline=120)
    attempt = status["attempts"][-1]
    print(f"\n{name}: running with two {time.monotonic() - since:.2f} s after the fault; attempt: {attempt}")
    assert (attempt["cause"], attempt["strategy"]) == ("MemberLost", "Shrink"), (
        f"its silence alone was not enough: {attempt}\n{cluster.known(name)}"
    )
    return attempt


def await_heartbeat(cluster, node):
    """Waits until the kubelet of that node renews its Lease: then the node is not called dead for another 8 s."""
    def renewed():
        return cluster.get("lease", node, "-n", "kube-node-lease")["spec"]["renewTime"]

    before = renewed()
    e2e.wait_for(f"the kubelet of {node} renews its Lease", lambda: renewed() != before, 30, every=0.05)


def test_a_powered_off_node_is_replaced_and_an_elastic_job_does_not_wait(cluster, job):
    name, few = "power-off", "power-off-few"
    # Both at once, and long enough for the one to train still when the other trains, too. Lockstep would place the
    # three pods of a job as close together as they fit; kube-scheduler spreads them.
    spread = {"steps": 600, "pace": 0.05, "scheduling": {"backend": "None"}}
    apply(cluster, job, few, elastic={"minNodes": 2, "stabilizationSeconds": 1}, **spread)
    apply(cluster, job, name, **spread)
    others, pods = train(cluster, few), train(cluster, name)
    carried = collections.Counter(pod["spec"]["nodeName"] for pod in others.values())
    # With one pod of the elastic job: two of three would be too many for it.
    nodes = {pod["spec"]["nodeName"] for pod in pods.values()} & {node for node, count in carried.items() if count == 1}
    # Not a node that carries a replica of the operator, and never the leader's: that is a test of its own.
    replicas = {
        pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in cluster.get("pods", "-n", e2e.NAMESPACE)["items"]
    }
    node = sorted(nodes - set(replicas.values()) or nodes - {replicas[cluster.leader()[1]]})[0]
    await_heartbeat(cluster, node)
    since = time.monotonic()
    cluster.command("power-off", node)
    try:
        went_on_with_fewer(cluster, few, since)
        attempt = recovered(cluster, name, "NodeLost", since)
        assert attempt["node"] == node
        finish(cluster, name)
        found = finish(cluster, few)
        # What had been silence has got its cause, unless the job was done before that was known.
        assert found["status"]["attempts"][0]["cause"] in ("NodeLost", "MemberLost")
        now = cluster.pods(name)
        assert not [pod for pod in now if pod["spec"].get("nodeName") == node]
        for pod in {pod["metadata"]["name"] for pod in now} - set(pods):
            took_the_survivors_state(cluster, pod)
    finally:
        cluster.command("power-on", node)
        cluster.kubectl("wait", "node", node, "--for=condition=Ready", "--timeout=60s", deadline=90)
