"""The operator is upgraded from the commit in tests/compat/BASELINE under a gang that trains, and rolled back to it.
After the upgrade, gang and record carry over. After the rollback, a gang whose ranks differ from slots forms a new
generation. 60 s."""

import pathlib
import subprocess

import pytest

import binder
import e2e
import gang as gangs
import jobs

NODES = 2
RACK = "example.com/rack"
STEPS = 2_000
IMAGE = "docker.io/lockstep/operator:baseline"


@pytest.fixture(scope="module")
def baseline(cluster):
    """The baseline's operator; its agent is in an image on the nodes."""
    built = subprocess.run([e2e.ROOT / "tests/compat/programs.sh"], capture_output=True, text=True, timeout=1500)
    if built.returncode == 3:
        pytest.skip(built.stderr.strip())
    assert built.returncode == 0, built.stderr
    folder = pathlib.Path(built.stdout.strip())
    archive = e2e.OUT / "fault-images/baseline.tar"
    agent = f"{folder}/lockstep-agent:/lockstep-agent:0755"
    e2e.run(e2e.ROOT / "tests/cluster/image", "--name", IMAGE, "--file", agent, "--out", archive)
    cluster.command("load", archive)
    return folder / "lockstep-operator"


def test_a_gang_of_the_baseline_carries_over_to_this_operator(cluster, job, start, baseline):
    before = start(program=baseline, image=IMAGE)
    before.wait_until_ready()
    gang = gangs.Gang(cluster, job, "upgrade", *gangs.FLAGS, pace=0.05, steps=100_000, nodes=NODES, elastic=False)
    pods = [gang.pod(slot) for slot in range(NODES)]
    record = cluster.record("upgrade")
    assert "format" not in record, "the baseline's record"

    with gang.fault("the operator is upgraded", costs_a_member=False):
        assert before.stop() == 0
        after = start()
        after.wait_until_ready()
        connected = "an agent connected pod=default/upgrade-"
        e2e.wait_for("every agent is back", lambda: after.log().count(connected) >= NODES, 30)
        gang.makes_steps(40)
        told = gang.ledgers.step()
        e2e.wait_for("the status follows the gang", lambda: gang.status().get("progress", {}).get("step", 0) > told, 30)
    assert cluster.gang("upgrade") == list(range(NODES))
    assert gang.status()["restarts"]["total"] == 0

    with gang.fault("a rank is killed"):
        gang.kill_process(1)
    (attempt,) = gang.rows[-1][3]
    assert (attempt["cause"], attempt["strategy"]) == ("ProcessSignal", "InPlace"), attempt
    assert [gang.pod(slot)["metadata"]["uid"] for slot in range(NODES)] == [pod["metadata"]["uid"] for pod in pods]
    carried = cluster.record("upgrade")
    assert carried["generation"] == record["generation"] + 1 and carried["term"] > record["term"]
    print(f"\nformat of the record: {record.get('format')}, then {carried['format']}")


def test_a_rollback_re_forms_a_gang_whose_ranks_differ_from_slots(cluster, job, start, baseline, tmp_path):
    for node, rack in {"n1": "a", "n2": "b"}.items():
        cluster.kubectl("label", "node", node, f"{RACK}={rack}", "--overwrite")
    before = start(flags=(f"--topology-level=rack={RACK}",))
    before.wait_until_ready()
    template = jobs.patient()
    template["spec"]["schedulerName"] = binder.Binder.NAME
    with binder.Binder(cluster, ["n1", "n2", "n1"]):
        gang = gangs.Gang(cluster, job, "rollback", *gangs.FLAGS, pace=0.05, steps=STEPS, nodes=3, elastic=False,
                          podTemplate=template, scheduling={"backend": "None"})
        pods = [gang.pod(slot) for slot in range(3)]
        record = cluster.record("rollback")
        assert record["format"] == 3 and cluster.slots_by_rank("rollback") == [0, 2, 1], record

        assert before.stop() == 0
        start(program=baseline, image=IMAGE).wait_until_ready()
        gang.until("all train in a new generation", lambda: gang.ledgers.trains_with(3, record["generation"]))
        rolled_back = cluster.record("rollback")
        assert "format" not in rolled_back and cluster.slots_by_rank("rollback") == [0, 1, 2], rolled_back
        assert [gang.pod(slot)["metadata"]["uid"] for slot in range(3)] == [pod["metadata"]["uid"] for pod in pods]
        assert gang.status()["restarts"].get("charged", 0) == 0
        print(f"\ngeneration {record['generation']}, then {rolled_back['generation']} of the baseline")

        gang.hurry()
        digest = gangs.reference(tmp_path / "alone", *gangs.FLAGS, f"--steps={STEPS}")
        assert gang.finish() == digest
    assert e2e.ledger_verdict(gang.ledgers.folder, tmp_path / "alone").violations == []
