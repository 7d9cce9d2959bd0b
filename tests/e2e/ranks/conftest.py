"""A real cluster of four nodes in two racks, with the CRD. Operators are processes on the host."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402
import host_operator  # noqa: E402


@pytest.fixture(scope="session")
def cluster():
    yield from host_operator.cluster_with_images("racks", nodes=4)


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
