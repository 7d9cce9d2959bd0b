"""A real cluster with the CRD and no operator in it: the operators of this folder are processes on the host."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402
import host_operator  # noqa: E402
import life  # noqa: E402


@pytest.fixture(scope="session")
def cluster():
    folder = e2e.OUT / "fault-images"
    folder.mkdir(parents=True, exist_ok=True)
    e2e.run(e2e.ROOT / "containers/build-images.sh", e2e.BUILD, folder, deadline=300)
    yield from host_operator.cluster_with_crd("crash", nodes=2, images=[folder / "operator.tar", folder / "trainer.tar"])


@pytest.fixture
def start(cluster, tmp_path):
    """Starts operators for namespace `default`, and ends them after the test; the next test's terms begin at 1."""
    operators = host_operator.Operators(cluster, "default", tmp_path, lease=life.LEASE)
    yield operators
    operators.end()
    cluster.kubectl("delete", "lease/lockstep-operator", "secret/lockstep-coordinator-ca", "service/lockstep-coordinator", "-n", "default",
                    "--ignore-not-found")


@pytest.fixture
def job(cluster, start):
    """Applies jobs, and removes them after the test by an operator, whatever became of it."""
    names = []

    def apply(document):
        names.append(document["metadata"]["name"])
        cluster.apply(document)
        return document["metadata"]["name"]

    yield apply
    for name in names:
        cluster.delete_job(name)
