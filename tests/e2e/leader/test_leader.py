"""The leader on a real API server: what it keeps in order, and what it does while the API server is away."""

import json
import time

import e2e
import host_operator
import jobs

LEASE = 15
SERVICE = host_operator.coordinator_service()


def slice_of(cluster, namespace):
    return cluster.read(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/lockstep-coordinator")


def owner_of(thing):
    """The uid of its first owner, or None."""
    return thing.get("metadata", {}).get("ownerReferences", [{}])[0].get("uid")


def addresses(cluster, namespace):
    found = slice_of(cluster, namespace)
    return found and found["endpoints"] and found["endpoints"][0]["addresses"]


def secret_of(cluster, namespace):
    return cluster.read(f"/api/v1/namespaces/{namespace}/secrets/lockstep-coordinator-ca")


def term_of(cluster, namespace):
    return int(secret_of(cluster, namespace)["metadata"]["annotations"]["lockstep.dev/term"])


def lease_of(cluster, namespace):
    return cluster.read(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/lockstep-operator")


def timed(what, look, deadline):
    begun = time.monotonic()
    e2e.wait_for(what, look, deadline)
    print(f"\n{what}: {time.monotonic() - begun:.1f} s")


def test_a_deleted_or_overwritten_endpoint_is_back_within_seconds(cluster, namespace, start):
    start().wait_until_ready()
    good = addresses(cluster, namespace)
    assert good, "an operator that is ready has published its endpoint"
    cluster.kubectl("delete", "endpointslice", "lockstep-coordinator", "-n", namespace)
    timed("a deleted slice is back", lambda: addresses(cluster, namespace) == good, 8)
    cluster.kubectl("patch", "endpointslice", "lockstep-coordinator", "-n", namespace, "--type=json",
                    "-p", '[{"op": "replace", "path": "/endpoints/0/addresses/0", "value": "192.0.2.9"}]')
    timed("an overwritten slice is back", lambda: addresses(cluster, namespace) == good, 8)


def test_a_recreated_service_gets_its_endpoint_and_a_deleted_one_returns(cluster, namespace, start):
    operator = start()
    operator.wait_until_ready()
    service = cluster.get("service", "lockstep-coordinator", "-n", namespace)
    cluster.kubectl("delete", "service", "lockstep-coordinator", "-n", namespace)
    cluster.apply(SERVICE, namespace)
    uid = cluster.get("service", "lockstep-coordinator", "-n", namespace)["metadata"]["uid"]
    timed("the slice belongs to the recreated Service",
          lambda: owner_of(slice_of(cluster, namespace) or {}) == uid, 10)
    address = cluster.get("service", "lockstep-coordinator", "-n", namespace)["spec"]["clusterIP"]

    cluster.kubectl("delete", "service", "lockstep-coordinator", "-n", namespace)
    timed("a deleted Service is back", lambda: cluster.get("service", "lockstep-coordinator", "-n", namespace), 15)
    back = cluster.get("service", "lockstep-coordinator", "-n", namespace)
    assert back["spec"]["clusterIP"] == address, "agents dial the number"
    assert back["metadata"]["labels"] == service["metadata"]["labels"]
    timed("its slice is back", lambda: addresses(cluster, namespace), 8)


def test_the_term_never_falls_when_the_lease_or_the_secret_is_deleted(cluster, namespace, start):
    for expected in (1, 2):
        operator = start()
        operator.wait_until_ready()
        assert term_of(cluster, namespace) == expected
        assert operator.stop() == 0
    cluster.kubectl("delete", "lease", "lockstep-operator", "-n", namespace)
    operator = start()
    operator.wait_until_ready()
    assert term_of(cluster, namespace) == 3
    timed("the Lease says the term as well", lambda: lease_of(cluster, namespace)["spec"]["leaseTransitions"] == 3, 8)
    authority = secret_of(cluster, namespace)["data"]
    cluster.kubectl("delete", "secret", "lockstep-coordinator-ca", "-n", namespace)
    timed("the Secret is back", lambda: secret_of(cluster, namespace), 8)
    assert secret_of(cluster, namespace)["data"] == authority
    assert term_of(cluster, namespace) == 3
    cluster.kubectl("annotate", "secret", "lockstep-coordinator-ca", "-n", namespace, "lockstep.dev/term=1",
                    "--overwrite")
    timed("the annotation is back", lambda: term_of(cluster, namespace) == 3, 8)


def test_the_authority_rotates_once_no_pod_trusts_only_the_old_one(cluster, namespace, start):
    operator = start()
    operator.wait_until_ready()
    old = secret_of(cluster, namespace)["data"]["tls.crt"]
    ignorant = {"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "old", "labels": {"lockstep.dev/job-uid": "of-a-job"}},
                "spec": {"containers": [{"name": "c", "image": "nobody"}], "nodeSelector": {"nowhere": "at-all"}}}
    e2e.wait_for("pods can be made", lambda: cluster.apply(ignorant, namespace, check=False).returncode == 0, 30)
    cluster.kubectl("annotate", "secret", "lockstep-coordinator-ca", "-n", namespace, "lockstep.dev/rotate=now")
    timed("the next authority is made", lambda: secret_of(cluster, namespace)["data"].get("next.crt"), 8)
    following = secret_of(cluster, namespace)["data"]["next.crt"]
    begun = time.monotonic()
    e2e.wait_for("the old one could go but for the pod", lambda: time.monotonic() - begun > 36, 40, every=1)
    assert secret_of(cluster, namespace)["data"]["tls.crt"] == old, "pod `old` trusts no other"
    cluster.kubectl("delete", "pod", "old", "-n", namespace, "--grace-period=0", "--force")
    timed("the next authority is the current one",
          lambda: secret_of(cluster, namespace)["data"]["tls.crt"] == following, 8)
    assert "next.crt" not in secret_of(cluster, namespace)["data"]
    assert operator.process.poll() is None


def test_a_standby_takes_over_within_a_second_of_an_end_in_order(cluster, namespace, start):
    first = start()
    first.wait_until_ready()
    standby = start()
    e2e.wait_for("the standby is ready", lambda: (standby.get("/readyz") or [0])[0] == 200, 30)
    first.process.terminate()
    first.process.wait(20)
    released = time.monotonic()
    e2e.wait_for("the standby leads", standby.leads, 10, every=0.01)
    seconds = time.monotonic() - released
    print(f"\nfrom the end of the leader until the standby leads: {seconds:.2f} s")
    assert seconds < 1.5, "the goal is 1 s on a machine with idle cores"


def test_a_killed_leader_is_replaced_within_its_lease_and_two_seconds(cluster, namespace, start):
    first = start()
    first.wait_until_ready()
    standby = start()
    e2e.wait_for("the standby is ready", lambda: (standby.get("/readyz") or [0])[0] == 200, 30)
    first.process.kill()
    first.process.wait()
    killed = time.monotonic()
    e2e.wait_for("the standby leads", standby.leads, LEASE + 20, every=0.02)
    seconds = time.monotonic() - killed
    print(f"\nfrom the kill of the leader until the standby leads: {seconds:.2f} s, with a Lease of {LEASE} s")
    assert seconds <= LEASE + 2


def test_a_job_made_while_a_renewal_is_late_is_reconciled_after_it(cluster, namespace, start, tmp_path):
    gate = tmp_path / "hold-renewals"
    operator = start(LOCKSTEP_FAULT_HOLD_RENEWALS=str(gate))
    operator.wait_until_ready()
    gate.touch()

    def may_not_write():  # from 10 s after the last renewal on; the one that is held was sent 2 s after that
        renewed = e2e.seconds_of(lease_of(cluster, namespace)["spec"]["renewTime"])
        return time.time() > renewed + LEASE * 2 / 3 + 0.2

    e2e.wait_for("its renewal is late", may_not_write, LEASE, every=0.05)
    cluster.apply(jobs.training_job("late", image="nobody", command=["true"], nodes=1), namespace)
    e2e.wait_for("the fence refuses its writes", lambda: 'result="cancelled"' in operator.get("/metrics")[1], 1.5,
                 every=0.02)
    gate.unlink()
    try:
        timed("the job has its pod", lambda: cluster.pods("late", namespace), 5)
    except AssertionError as error:
        status = json.dumps(cluster.job("late", namespace).get("status"))
        raise AssertionError(f"{error}; its status: {status}") from None
    assert "the lease is lost" not in operator.log()
