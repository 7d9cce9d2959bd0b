"""A real cluster of four nodes in two racks, with the CRD and no operator in it: operators are processes on the host."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402
import host_operator  # noqa: E402


@pytest.fixture(scope="session")
def cluster():
    folder = e2e.OUT / "rank-images"
    folder.mkdir(parents=True, exist_ok=True)
    e2e.run(e2e.ROOT / "containers/build-images.sh", e2e.BUILD, folder, deadline=300)
    images = [folder / "operator.tar", folder / "trainer.tar"]
    yield from host_operator.cluster_with_crd("racks", nodes=4, images=images)


@pytest.fixture
def start(cluster, tmp_path):
    """Starts operators for namespace `default`, and ends them after the test."""
    operators = host_operator.Operators(cluster, "default", tmp_path, lease=3)
    yield operators
    operators.end()


@pytest.fixture
def job(cluster, start):
    """Applies jobs, and has an operator remove them after the test."""
    with e2e.applied_jobs(cluster) as apply:
        yield apply
