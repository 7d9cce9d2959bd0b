"""A real API server with the CRD; the operators of this folder are processes on the host, and no pod ever runs."""

import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402
import host_operator  # noqa: E402


@pytest.fixture(scope="session")
def cluster():
    yield from host_operator.cluster_with_crd("leader", nodes=1, audit=False, kwok=2)


@pytest.fixture
def namespace(cluster, request):
    """A namespace of the test's own."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name)[:50].strip("-")
    cluster.kubectl("create", "namespace", name)
    return name


@pytest.fixture
def pods_are_admitted(cluster, namespace):
    """The namespace has its default ServiceAccount, without which the API server refuses pods.

    kube-controller-manager creates it, and leads again a minute after an outage of the API server."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    e2e.wait_for("the namespace has a ServiceAccount", lambda: cluster.read(path), 120)


@pytest.fixture
def start(cluster, namespace, tmp_path):
    """Starts operators, and ends them after the test."""
    operators = host_operator.Operators(cluster, namespace, tmp_path)
    yield operators
    operators.end()
