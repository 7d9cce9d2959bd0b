"""A real cluster with the CRD and no operator in it: the operators of this folder are processes on the host."""

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
    folder = e2e.OUT / "fault-images"
    folder.mkdir(parents=True, exist_ok=True)
    e2e.run(e2e.ROOT / "containers/build-images.sh", e2e.BUILD, folder, deadline=300)
    found = e2e.Cluster("crash", nodes=2)
    try:
        for image in ("operator", "trainer"):
            found.command("load", folder / f"{image}.tar")
        found.kubectl("apply", "-f", e2e.ROOT / "manifests/crd.yaml")
        e2e.wait_for("the CRD is served", lambda: is_served(found), deadline=30)
        yield found
    finally:
        found.down()
