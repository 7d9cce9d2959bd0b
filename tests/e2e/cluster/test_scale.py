"""An elastic job is scaled with `kubectl scale` while it trains: nobody fails, nothing is lost and nothing done twice."""

import itertools
import os
import time

import pytest

import e2e
import jobs

pytestmark = pytest.mark.usefixtures("language_model_example")

SCALES = int(os.environ.get("LOCKSTEP_SCALES", 6))
# Two numbers: the second follows at once, before anything has come of the first.
SIZES = list(itertools.islice(itertools.cycle([(4,), (2,), (3,), (1, 3), (4,), (2,)]), SCALES))
# Most of a step of so small a model is talk between the ranks, so one process alone is fast.
FLAGS = ["--model=mlp", f"--steps={3000 * SCALES}", "--batch-size=32", "--micro-batch-size=4", "--threads=1", "--seed=7",
         "--log-every=50", "--deterministic"]


@pytest.fixture(scope="module")
def digest():
    """Of the state at the end of a run of one process that nobody disturbed."""
    done = e2e.run(e2e.BUILD / "bin/lockstep-trainer", *FLAGS, deadline=600)
    return e2e.trainer_result(done.stdout)["digest"]


def scale(cluster, name, nodes):
    return cluster.kubectl("scale", f"trainingjob/{name}", f"--replicas={nodes}", check=False)


def trains_with(cluster, name, nodes, procs):
    """The status, once the present generation has that many pods and no other pod is left."""
    status = cluster.job(name)["status"]
    return status if status["worldSize"] == nodes * procs and status["nodes"]["ready"] == nodes == len(cluster.pods(name)) else None


def reasons(cluster, name):
    events = cluster.get("events", "--field-selector", f"involvedObject.name={name}")["items"]
    return {event["reason"]: event.get("message") or event.get("note") for event in events}


def test_a_job_that_is_scaled_up_and_down_ends_with_the_bits_of_an_undisturbed_run(cluster, job, digest):
    procs = 2
    name = job(jobs.trainer("scaled", *FLAGS, nodes=2, procs=procs, elastic={"minNodes": 1, "maxNodes": 4, "stabilizationSeconds": 1}))
    cluster.wait_condition(name, "Running", deadline=90)
    begun = time.monotonic()
    seconds = []
    for sizes in SIZES:
        before = cluster.logged_step(name)
        since = time.monotonic()
        for nodes in sizes:
            assert scale(cluster, name, nodes).returncode == 0
        status = e2e.wait_for(f"{name} trains with {nodes}", lambda nodes=nodes: trains_with(cluster, name, nodes, procs), deadline=60)
        seconds.append(round(time.monotonic() - since, 2))
        assert status["state"] == "Running", status
        e2e.wait_for("it gets on", lambda before=before: cluster.logged_step(name) > before, deadline=60)
    print(f"\n{name}: scaled to {SIZES} within {time.monotonic() - begun:.0f} s; each took {seconds} s; now at step {cluster.logged_step(name)}")
    scale_of_it = cluster.read(f"/apis/lockstep.dev/v1alpha1/namespaces/default/trainingjobs/{name}/scale")
    assert scale_of_it["status"]["selector"] == f"lockstep.dev/job-uid={scale_of_it['metadata']['uid']}"
    found = cluster.wait_condition(name, "Succeeded", deadline=300)
    status = found["status"]
    assert [attempt["cause"] for attempt in status["attempts"]] == ["Completed"], status["attempts"]
    assert status["restarts"]["total"] == 0
    assert status["membershipGeneration"] > len(SIZES)
    assert not status.get("released"), status
    said = reasons(cluster, name)
    assert said["ScaledUp"].startswith("nodes was raised from"), said
    assert said["ScaledDown"].startswith("nodes was lowered from"), said
    log = cluster.kubectl("logs", cluster.rank_0(name), "-c", "trainer").stdout
    assert e2e.trainer_result(log)["digest"] == digest
    assert "restored" not in log, "slot 0 kept its memory all the time"


def test_the_server_refuses_what_the_job_did_not_ask_for(cluster, job):
    name = job(jobs.shell("bounded", "sleep 60", nodes=2, elastic={"minNodes": 2, "maxNodes": 3}))
    fixed = job(jobs.shell("fixed", "sleep 60", nodes=1))
    for target, nodes, why in ((name, 4, "nodes must not be greater than elastic.maxNodes"),
                               (name, 1, "elastic.minNodes must not be greater than nodes"),
                               (fixed, 2, "nodes cannot be changed while a job without elastic runs; set spec.suspend to true first")):
        refused = scale(cluster, target, nodes)
        assert refused.returncode != 0 and why in refused.stderr, refused.stderr
    assert scale(cluster, name, 2).returncode == 0
