"""Jobs on a real cluster, from `kubectl apply` to Succeeded."""

import pathlib
import re

import pytest
import yaml

import e2e
import jobs

EXAMPLES = e2e.ROOT / "examples"


def result_of(cluster, name):
    """The result line of the trainer, from rank 0's log."""
    log = cluster.kubectl("logs", cluster.rank_0(name), "-c", "trainer").stdout
    found = e2e.trainer_result(log)
    assert found, f"no result line in the log of rank 0:\n{log[-3000:]}"
    return found


@pytest.fixture(scope="module")
def digests(cluster):
    """Digest of the final state by number of workers; the same job each time."""
    found = {}
    flags = jobs.small_model(60, "--deterministic")
    for workers in (1, 2, 3, 4):
        name = f"digest-{workers}"
        cluster.apply(jobs.trainer(name, *flags, nodes=workers))
    for workers in (1, 2, 3, 4):
        name = f"digest-{workers}"
        cluster.wait_condition(name, "Succeeded", deadline=240)
        found[workers] = result_of(cluster, name)["digest"]
        cluster.delete_job(name)
    return found


def test_deterministic_training_has_one_digest_for_any_number_of_workers(digests):
    print(f"\ndigests by workers: {digests}")
    assert len(set(digests.values())) == 1


def test_the_digest_on_the_cluster_equals_that_of_lockstep_run(digests, tmp_path):
    document = jobs.trainer("digest-local", *jobs.small_model(60, "--deterministic"), nodes=2)
    path = pathlib.Path(tmp_path) / "job.yaml"
    path.write_text(yaml.safe_dump(document))
    done = e2e.run(e2e.BUILD / "bin/lockstep", "run", path, "--output", tmp_path / "run", deadline=240)
    logs = "".join(log.read_text() for log in (tmp_path / "run").rglob("*.log"))
    found = e2e.trainer_result(logs + done.stdout)["digest"]
    print(f"\nlockstep run: {found}; cluster: {digests[2]}")
    assert found == digests[2]


def test_a_torchrun_style_program_runs_unchanged(cluster, job):
    name = job(jobs.training_job("torchrun-style", image="docker.io/lockstep/torchrun-style:test",
                                 command=["/torchrun-style"], nodes=3, procsPerNode=2, rendezvous={"kind": "Torch"},
                                 podTemplate=jobs.pod_template()))
    found = cluster.wait_condition(name, "Succeeded", deadline=120)
    assert found["status"]["worldSize"] == 6


def test_suspend_ends_the_processes_and_resume_goes_on_from_the_checkpoint(cluster, job):
    cluster.command("volume", "default", "suspend-state")
    name = job(jobs.trainer("suspend", *jobs.small_model(400, "--deterministic", jobs.pace(0.02)), nodes=2,
                            claim="suspend-state"))
    cluster.wait_condition(name, "Running", deadline=90)
    cluster.wait_for(name, "40 steps", lambda: cluster.logged_step(name) >= 40, deadline=120, every=0.3)
    with cluster.following(cluster.rank_0(name)) as before:
        cluster.kubectl("patch", "tj", name, "--type=merge", "-p", '{"spec":{"suspend":true}}')
        cluster.wait_condition(name, "Suspended", deadline=90)
        cluster.wait_for(name, "no pod is left",
                         lambda: not [p for p in cluster.pods(name) if p["status"]["phase"] == "Running"], deadline=60)
    stopped = re.search(r"stopped after step (\d+)", before.text)
    assert stopped, before.text
    cluster.kubectl("patch", "tj", name, "--type=merge", "-p", '{"spec":{"suspend":false}}')
    cluster.wait_condition(name, "Succeeded", deadline=240)
    after = cluster.kubectl("logs", cluster.rank_0(name), "-c", "trainer").stdout
    assert f"at step {stopped[1]}\n" in after and "restored step-" in after, \
        f"{before.text}\n--- resumed\n{after[:2000]}"


@pytest.fixture(scope="module")
def accepted(cluster):
    """The server's answers to all examples."""
    return cluster.kubectl("apply", "--dry-run=server", "-f", EXAMPLES).stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_accepted_by_the_server(accepted, path):
    name = yaml.safe_load(path.read_text())["metadata"]["name"]
    assert re.search(rf"^trainingjob\.lockstep\.dev/{name} (created|configured|unchanged) \(server dry run\)$",
                     accepted, re.MULTILINE), accepted
