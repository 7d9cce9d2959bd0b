"""A real cluster with the CRD and no operator in it: the operators of this folder are processes on the host."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402


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
        found.kubectl("wait", "crd/trainingjobs.lockstep.dev", "--for=condition=Established", "--timeout=30s")
        yield found
    finally:
        found.down()
