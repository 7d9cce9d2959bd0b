"""One real cluster for all tests of this folder, with the operator installed by Helm, as a user would."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402

KWOK_NODES = 7  # beside three that run pods, so that four nodes are 40 %; their taint keeps pods away


@pytest.fixture(scope="session")
def images():
    """Image archives by name: operator, trainer, trainer-cuda, torchrun-style; made without a daemon."""
    folder = e2e.OUT / "images"
    folder.mkdir(parents=True, exist_ok=True)
    done = e2e.run(e2e.ROOT / "containers/build-images.sh", e2e.BUILD, folder, deadline=300)
    print(done.stdout)
    e2e.run(e2e.ROOT / "tests/e2e/programs/cuda_image.sh", e2e.BUILD, folder, deadline=300)
    program = folder / "torchrun-style"
    e2e.run("gcc", "-O2", "-static", "-o", program, e2e.ROOT / "tests/e2e/programs/torchrun_style.c")
    e2e.run(e2e.ROOT / "tests/cluster/image", "--name", "docker.io/lockstep/torchrun-style:test",
            "--file", f"{program}:/torchrun-style:0755", "--out", folder / "torchrun-style.tar")
    busybox = next(path for path in ("/bin/busybox", "/usr/bin/busybox") if os.path.exists(path))
    e2e.run(e2e.ROOT / "tests/cluster/image", "--name", "docker.io/lockstep/busybox:test",
            "--file", f"{busybox}:/bin/busybox:0755", "--file", f"{busybox}:/bin/sh:0755", "--out",
            folder / "busybox.tar")
    return folder


@pytest.fixture(scope="session")
def bare_cluster(images):
    """The cluster with every image loaded, and nothing of Lockstep installed."""
    name = os.environ.get("LOCKSTEP_E2E_CLUSTER", "e2e")
    cluster = e2e.Cluster(name, kwok=KWOK_NODES)
    try:
        for archive in sorted(images.glob("*.tar")):
            cluster.command("load", archive)
        yield cluster
    finally:
        if not os.environ.get("LOCKSTEP_E2E_KEEP"):
            cluster.down()


@pytest.fixture(scope="session")
def cluster(bare_cluster):
    """The cluster with the operator running in it: two replicas, installed by Helm."""
    e2e.run(e2e.program("helm"), "upgrade", "--install", "lockstep", e2e.ROOT / "charts/lockstep", "-n", e2e.NAMESPACE,
            "--create-namespace", "--set", "image.tag=dev", "--set", "image.pullPolicy=Never",
            "--set", f"leaveNodes={{label:{e2e.SICK}}}", "--set", f"deadNodes={{label:{e2e.DEAD}}}",
            "--wait", "--timeout", "120s",
            env=bare_cluster.env, deadline=150)
    return bare_cluster


def place_of(item):
    """First what needs the cluster to itself and waits, last what takes nodes away from it."""
    if "test_operator" in item.nodeid:
        return 0
    if any(name in item.nodeid for name in ("test_faults", "test_partitions", "test_detection")):
        return 3  # pods that take a node each, and nodes, the API server and the operators are away
    return 2 if "powered_off" in item.name else 1


def pytest_collection_modifyitems(items):
    items.sort(key=place_of)


@pytest.fixture
def job(cluster, request):
    """Applies jobs and removes them after the test."""
    with e2e.applied_jobs(cluster) as apply:
        yield apply
    misunderstood = [line for line in cluster.operators_say().splitlines() if "is not understood" in line]
    assert not misunderstood, \
        "an agent and a coordinator of one version do not understand one another:\n" + "\n".join(misunderstood)
