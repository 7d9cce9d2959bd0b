"""An elastic job with too few pods: it holds its state in memory, saves it after holdSeconds, and resumes from it."""

import re
import time

import e2e
import jobs

FLAGS = jobs.mlp(1500)


def reason(cluster, name):
    conditions = cluster.job(name)["status"]["conditions"]
    return next(c["reason"] for c in conditions if c["type"] == "Restarting")


def test_the_last_survivor_saves_its_state_and_the_job_resumes_from_it(cluster, job):
    name = "hold"
    cluster.command("volume", "default", "hold-state")
    # Each pod takes all GPUs of a node, so that on nodes that are cordoned nothing can be replaced. No checkpoint by
    # time.
    job(jobs.trainer(name, *FLAGS, jobs.pace(0.01), claim="hold-state", every=3600, gpusPerNode=8, nodes=3,
                     elastic={"minNodes": 2, "holdSeconds": 3, "stabilizationSeconds": 1}))
    cluster.wait_for(name, "all three train", lambda: cluster.job(name).get("status", {}).get("worldSize") == 3,
                     deadline=90)
    cluster.wait_for(name, "200 steps", lambda: cluster.logged_step(name) >= 200, deadline=120)
    pods = {int(pod["metadata"]["labels"]["lockstep.dev/slot"]): pod for pod in cluster.pods(name)}
    last = pods[0]["metadata"]["name"]
    lost = [pods[1], pods[2]]
    try:
        for pod in lost:
            cluster.kubectl("cordon", pod["spec"]["nodeName"])
        with cluster.following(last) as said:
            since = time.monotonic()
            cluster.kubectl("delete", "pod", *(pod["metadata"]["name"] for pod in lost), "--grace-period=0", "--force")
            cluster.wait_for(name, "it lets go", lambda: reason(cluster, name) in ("BelowMinimum", "Released"),
                             deadline=60)
            print(f"\n{name}: it held for {time.monotonic() - since:.1f} s")
            cluster.wait_for(name, "its pod is gone",
                             lambda: last not in {pod["metadata"]["name"] for pod in cluster.pods(name)})
        saved = re.findall(r"checkpoint (step-\d+\.g\d+)", said.text)  # the last: leaving is a reason for one, too
        assert saved and "stopped between generations" in said.text, said.text
        assert time.monotonic() - since > 3
        assert cluster.job(name)["status"]["state"] == "Restarting"
        recorded = cluster.record(name).get("checkpoint")
        assert recorded and recorded["name"] == saved[-1], f"{recorded}\n{said.text}\n{cluster.known(name)}"
    finally:
        for pod in lost:
            cluster.kubectl("uncordon", pod["spec"]["nodeName"])
    found = cluster.wait_condition(name, "Succeeded", deadline=300)
    assert found["status"]["attempts"][-1]["cause"] == "Completed"
    # Two of three are enough to go on. Slot 0 may take the state of the others, and one may not have begun at the end.
    logs = [cluster.kubectl("logs", pod["metadata"]["name"], "-c", "trainer", check=False).stdout
            for pod in cluster.pods(name)]
    assert any(f"restored {saved[-1]} at step" in log for log in logs), (recorded, [log[:1000] for log in logs])
    alone = e2e.run(e2e.BUILD / "bin/lockstep-trainer", *FLAGS, deadline=600).stdout
    assert cluster.trainer_result(name)["digest"] == e2e.trainer_result(alone)["digest"]
