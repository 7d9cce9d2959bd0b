"""An elastic job is scaled with `kubectl scale` while it trains: no failure, no lost and no repeated step."""

import itertools
import os
import time

import pytest

import e2e
import jobs

SCALINGS = int(os.environ.get("LOCKSTEP_SCALINGS", 6))
LOSE = "a pod is deleted"  # whose place the spare takes
# Two numbers: the second follows at once, before anything has come of the first.
CHANGES = list(itertools.islice(itertools.cycle([(4,), (2,), LOSE, (3,), (1, 3), (2,)]), SCALINGS))
STEPS = 1200 + 200 * SCALINGS  # what the changes take, and half a minute more where other tests run beside this one
MODEL = ["--model=mlp", "--width=64", "--layers=2", "--batch-size=12", "--micro-batch-size=2", f"--steps={STEPS}",
         "--threads=1", "--seed=7", "--log-every=10", "--deterministic"]
PACE = 0.02  # seconds of a step, or more: a change takes two or three seconds, whatever the machine


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The ledger of an undisturbed run of one process, and the digest of its state at the end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = e2e.run(e2e.BUILD / "bin/lockstep-trainer", *MODEL, f"--ledger={folder}", deadline=600)
    return folder, e2e.trainer_result(done.stdout)["digest"]


def scale(cluster, name, nodes):
    return cluster.kubectl("scale", f"trainingjob/{name}", f"--replicas={nodes}", check=False)


def trains_with(cluster, name, nodes, procs):
    """The status, once the present generation has that many pods, one more is its spare, and no other pod is left."""
    status = cluster.job(name).get("status")
    if not status:
        return None
    there = status["nodes"]["ready"] == nodes and status["nodes"].get("spare") == 1
    there = there and len(cluster.pods(name)) == nodes + 1
    return status if there and status["worldSize"] == nodes * procs else None


def reasons(cluster, name):
    events = cluster.get("events", "--field-selector", f"involvedObject.name={name}")["items"]
    return {event["reason"]: event.get("message") or event.get("note") for event in events}


def test_a_job_scaled_up_and_down_is_exact_and_bitwise_identical(cluster, job, undisturbed):
    procs = 2
    name, nodes = "scaled", 2
    ledgers = e2e.Ledgers(cluster.command("volume", "default", f"{name}-state").stdout.strip() + "/ledger")
    job(jobs.trainer(name, *MODEL, jobs.pace(PACE), "--ledger=/checkpoints/ledger", nodes=nodes, procs=procs,
                     claim=f"{name}-state", every=3600, spares={"nodes": 1},
                     elastic={"minNodes": 1, "maxNodes": 4, "stabilizationSeconds": 1}))
    cluster.wait_for(name, "it trains, with a spare", lambda: trains_with(cluster, name, nodes, procs), deadline=90)
    begun = time.monotonic()
    seconds = []
    for change in CHANGES:
        generation = ledgers.read().generation()
        since = time.monotonic()
        if change == LOSE:
            gang = cluster.gang(name)
            cluster.kubectl("delete", "pod", cluster.by_slot(name)[gang[-1]]["metadata"]["name"], "--wait=false")
        else:
            for nodes in change:
                assert scale(cluster, name, nodes).returncode == 0

        def train(nodes=nodes, generation=generation):
            return trains_with(cluster, name, nodes, procs) and ledgers.read().trains_with(nodes * procs, generation)

        cluster.wait_for(name, f"{nodes} pods train", train, deadline=60)
        seconds.append(round(time.monotonic() - since, 2))
        assert cluster.job(name)["status"]["state"] == "Running", cluster.job(name)["status"]
    print(f"\n{name}: {len(CHANGES)} changes, {CHANGES[:6]}, within {time.monotonic() - begun:.0f} s; each took "
          f"{seconds} s; now at step {ledgers.step()} of {STEPS}")
    scale_of_it = cluster.read(f"/apis/lockstep.dev/v1alpha1/namespaces/default/trainingjobs/{name}/scale")
    assert scale_of_it["status"]["selector"] == f"lockstep.dev/job-uid={scale_of_it['metadata']['uid']}"
    found = cluster.wait_condition(name, "Succeeded", deadline=300)
    status = found["status"]
    lost = CHANGES.count(LOSE)
    causes = [attempt["cause"] for attempt in status["attempts"]]
    assert causes[-10:] == (["PodDeleted"] * lost + ["Completed"])[-10:], status["attempts"]
    assert status["restarts"].get("counted", 0) == 0 and status["restarts"]["total"] == lost
    assert status["membershipGeneration"] > len(CHANGES)
    assert not status.get("released"), status
    said = reasons(cluster, name)
    assert said["ScaledUp"].startswith("nodes was raised from"), said
    assert said["ScaledDown"].startswith("nodes was lowered from"), said
    logs = [cluster.kubectl("logs", pod["metadata"]["name"], "-c", "trainer").stdout for pod in cluster.pods(name)]
    assert not any("restored" in log for log in logs), "somebody has kept its memory all the time"
    reference, digest = undisturbed
    assert cluster.trainer_result(name)["digest"] == digest
    assert e2e.ledger_verdict(ledgers.folder, reference).violations == []


def test_the_server_refuses_what_the_job_did_not_ask_for(cluster, job):
    # Programs that are still there when they are to be scaled; nothing waits for their end.
    name = job(jobs.shell("bounded", "sleep 60", nodes=2, elastic={"minNodes": 2, "maxNodes": 3}))
    fixed = job(jobs.shell("fixed", "sleep 60", nodes=1))
    for target, nodes, why in ((name, 4, "nodes must not be greater than elastic.maxNodes"),
                               (name, 1, "elastic.minNodes must not be greater than nodes"),
                               (fixed, 2,
                                "nodes cannot be changed while a job without elastic runs; set spec.suspend to true "
                                "first")):
        refused = scale(cluster, target, nodes)
        assert refused.returncode != 0 and why in refused.stderr, refused.stderr
    assert scale(cluster, name, 2).returncode == 0
