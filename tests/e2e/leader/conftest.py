"""A real API server with the CRD; the operators of this folder are processes on the host, and no pod ever runs."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402


def is_served(cluster):
    """`kubectl wait` fails on a CRD so new that its conditions are null."""
    found = cluster.read("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/trainingjobs.lockstep.dev") or {}
    conditions = (found.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


@pytest.fixture(scope="session")
def cluster():
    found = e2e.Cluster("leader", nodes=1, audit=False)
    try:
        found.kubectl("apply", "-f", e2e.ROOT / "manifests/crd.yaml")
        e2e.wait_for("the CRD is served", lambda: is_served(found), deadline=30)
        yield found
    finally:
        found.down()
