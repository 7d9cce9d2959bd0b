"""The CRD is not installed. The last file of its folder, because every job of the cluster goes with the CRD. 10 s."""

import e2e


def test_a_missing_crd_is_named_and_waited_for(cluster, namespace, start):
    cluster.kubectl("delete", "-f", e2e.ROOT / "manifests/crd.yaml")
    operator = start()
    missing = "trainingjobs.lockstep.dev is not installed"
    e2e.wait_for("it names the CRD", lambda: missing in (operator.get("/readyz") or [0, ""])[1], 20)
    assert operator.get("/healthz")[0] == 200
    cluster.kubectl("apply", "-f", e2e.ROOT / "manifests/crd.yaml")
    operator.wait_until_ready()
