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
    yield from host_operator.cluster_with_images("crash", nodes=2)


@pytest.fixture
def start(cluster, tmp_path):
    """Starts operators for namespace `default`, and ends them after the test; the next test's terms begin at 1."""
    operators = host_operator.Operators(cluster, "default", tmp_path, lease=life.LEASE)
    yield operators
    operators.end()
    made = ("lease/lockstep-operator", "secret/lockstep-coordinator-ca", "service/lockstep-coordinator")
    cluster.kubectl("delete", *made, "-n", "default", "--ignore-not-found")


@pytest.fixture
def job(cluster, start):
    """Applies jobs, and has an operator remove them after the test."""
    with e2e.applied_jobs(cluster) as apply:
        yield apply
