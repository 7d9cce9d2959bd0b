"""Seconds from the end of a leader until the other operator leads: one that ends in order, and one that is killed.

LOCKSTEP_FAULT_ROUNDS is how often each happens; LOCKSTEP_FAULT_LEASE the seconds of the Lease."""

import os
import signal
import statistics
import time

import e2e
import host_operator
import life

ROUNDS = max(2, int(os.environ.get("LOCKSTEP_FAULT_ROUNDS", "1")))
NAMESPACE = "failover"


def holder(cluster):
    lease = cluster.read(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/lockstep-operator")
    return lease["spec"].get("holderIdentity", "") if lease else ""


def another_leads(cluster, before):
    """Waits until somebody else holds the Lease; seconds until then."""
    begun = time.monotonic()
    e2e.wait_for("another operator leads", lambda: holder(cluster) not in ("", before), deadline=4 * life.LEASE + 30,
                 every=0.01)
    return time.monotonic() - begun


def test_a_leader_is_followed_within_a_second_or_a_lease_and_two(cluster, tmp_path):
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.apply(host_operator.coordinator_service(), NAMESPACE)
    operators, took = [], {"in order": [], "killed": []}

    def start():
        operators.append(life.Operator(cluster, NAMESPACE, tmp_path, len(operators) + 1))
        return operators[-1]

    try:
        leads = start()
        another_leads(cluster, "")
        for _ in range(ROUNDS):
            for how, number in (("in order", signal.SIGTERM), ("killed", signal.SIGKILL)):
                standby = start()
                e2e.wait_for("the standby runs", lambda standby=standby: "started" in standby.log(), 30)
                # It judges a silent leader by what it has itself observed, for as long as the Lease lasts.
                before, begun = holder(cluster), time.monotonic()
                e2e.wait_for("a renewal has been observed",
                             lambda begun=begun: time.monotonic() > begun + life.LEASE / 2, life.LEASE)
                os.kill(leads.process.pid, number)
                took[how].append(another_leads(cluster, before))
                leads.process.wait(20)
                leads = standby
    finally:
        for operator in operators:
            operator.stop()
        cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    print(f"\nuntil the next operator leads, of {ROUNDS} each, with a Lease of {life.LEASE} s: "
          + "; ".join(f"{how}: median {statistics.median(values):.2f} s, longest {max(values):.2f} s"
                      for how, values in took.items()))
    assert max(took["in order"]) < 1, took
    assert max(took["killed"]) <= life.LEASE + 2, took
