"""One job on three nodes, one fault after the other, and the cost of each: a table, an exact ledger, bitwise identical
weights.

LOCKSTEP_AWAY_SECONDS is for how long the API server is away, LOCKSTEP_FAULT_LEASE after how many seconds another
operator takes over from one that fell silent; the long form has a minute and the shipped 15 s."""

import os
import signal
import time

import pytest

import e2e
from gang import FLAGS, NODES, Gang, p99, reference

AWAY = int(os.environ.get("LOCKSTEP_AWAY_SECONDS", "15"))
LEASE = int(os.environ.get("LOCKSTEP_FAULT_LEASE", "5"))
PACE = 0.05  # seconds of a step, or more: what is measured are the faults, not the cores of this machine
STEPS = int((150 + AWAY + 4 * LEASE) / PACE)  # enough for all faults; what is left of them is made without the pace


@pytest.fixture(scope="module")
def operators(cluster):
    """The operators with a Lease of LEASE seconds."""
    e2e.run(e2e.program("helm"), "upgrade", "lockstep", e2e.ROOT / "charts/lockstep", "-n", e2e.NAMESPACE,
            "--reuse-values", "--set", f"leaderElection.leaseDurationSeconds={LEASE}", "--wait", "--timeout", "120s",
            env=cluster.env, deadline=150)
    return cluster


def leads_another(cluster, holder):
    return e2e.wait_for("another operator leads", lambda: cluster.leader()[0] not in ("", holder),
                        deadline=4 * LEASE + 30)


def operator_of(pod):
    (pid,) = e2e.processes("lockstep-operator", HOSTNAME=pod)
    return pid


def without_node(gang, node, begin, end):
    """Takes a node away until the others train without it."""
    generation = gang.ledgers.generation()
    gang.cluster.command(begin, node)
    try:
        gang.until("the others go on", lambda: gang.ledgers.trains_with(NODES - 1, generation))
    finally:
        gang.cluster.command(end, node)


def without_kubelet(gang, node, generation):
    """Stops a kubelet until its node counts as dead and its pods are evicted, though their processes train on."""
    cluster = gang.cluster
    (pod,) = [pod["metadata"]["name"] for pod in cluster.by_slot(gang.name).values() if pod["spec"]["nodeName"] == node]
    cluster.command("kill-kubelet", node)
    try:
        cluster.kubectl("wait", f"node/{node}", "--for=condition=Ready=Unknown", "--timeout=60s", deadline=90)
        cluster.kubectl("delete", "pod", pod, "--wait=false")  # as the taint of such a node does after five minutes
        gang.until("the others go on", lambda: gang.ledgers.trains_with(NODES - 1, generation))
    finally:
        cluster.command("start-kubelet", node)


def freeze_the_leader_while_a_generation_is_agreed_on(gang, generation):
    """An agent that does not answer holds the agreement up between PROPOSE and GO, for less than a silence that is a
    loss."""
    cluster = gang.cluster
    holder, pod = cluster.leader()
    operator, agent = operator_of(pod), gang.process(2, "lockstep-agent")
    os.kill(agent, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        gang.kill_process(1)
        e2e.wait_for("the loss is recorded",
                     lambda: gang.status().get("attempts", [{}])[-1].get("generation") == generation, 2.5, every=0.005)
        os.kill(operator, signal.SIGSTOP)
        frozen = time.monotonic_ns()
    finally:
        os.kill(agent, signal.SIGCONT)
    try:
        leads_another(cluster, holder)
    finally:
        os.kill(operator, signal.SIGCONT)
    print(f"\nthe leader was frozen {frozen / 1e9 - begun:.2f} s after the fault, and another leads "
          f"{(time.monotonic_ns() - frozen) / 1e9:.1f} s later")
    entered = [line for lines in gang.ledgers.read().lines.values() for line in lines
               if line["kind"] == "enter" and line["generation"] > generation and line["ns"] < frozen]
    assert not entered, f"GO was out before the leader was frozen: {entered}"


def api_server_is_away(gang):
    """For AWAY seconds; after that another operator leads."""
    holder, _ = gang.cluster.leader()
    begun = time.monotonic()
    gang.cluster.command("kill-api-server")
    try:
        gang.until("that time has passed", lambda: time.monotonic() > begun + AWAY, deadline=AWAY + 10)
    finally:
        gang.cluster.command("start-api-server")
    leads_another(gang.cluster, holder)


def test_after_each_fault_the_job_resumes_exactly_and_bitwise_identical(operators, job, tmp_path):
    cluster = operators
    # A pod takes all GPUs of its node, so that each node has one.
    gang = Gang(cluster, job, "faults", *FLAGS, pace=PACE, steps=STEPS, gpusPerNode=8)
    gang.makes_steps(60)
    away = []  # (what, begun, ended): no member is lost meanwhile

    with gang.fault("a process is killed"):
        gang.kill_process(1)
    with gang.fault("a container is killed"):
        os.kill(gang.process(2, "lockstep-agent"), signal.SIGKILL)
    with gang.fault("a pod is deleted"):
        cluster.kubectl("delete", "pod", gang.pod(1)["metadata"]["name"], "--wait=false")

    # A node without an operator: what is to be seen is what happens to the gang.
    operating = {pod["spec"]["nodeName"] for pod in cluster.get("pods", "-n", e2e.NAMESPACE)["items"]
                 if "deletionTimestamp" not in pod["metadata"]}
    node = sorted({pod["spec"]["nodeName"] for pod in cluster.by_slot(gang.name).values()} - operating)[0]
    with gang.fault("a kubelet is stopped", costs_a_member=False):
        begun = time.monotonic_ns()
        cluster.command("kill-kubelet", node)
        try:
            gang.makes_steps(40)
        finally:
            cluster.command("start-kubelet", node)
        away.append(("the kubelet", begun, time.monotonic_ns()))
    with gang.fault("a kubelet is stopped, its pods are evicted") as generation:
        without_kubelet(gang, node, generation)
    with gang.fault("a cable is pulled, and put back"):
        without_node(gang, node, "cut", "uncut")
    with gang.fault("a node is powered off, and on"):
        without_node(gang, node, "power-off", "power-on")

    with gang.fault("the operator is killed", costs_a_member=False):
        holder, pod = cluster.leader()
        begun = time.monotonic_ns()
        os.kill(operator_of(pod), signal.SIGKILL)
        leads_another(cluster, holder)
        gang.makes_steps(20)
        away.append(("the operator", begun, time.monotonic_ns()))
    with gang.fault("a process; the leader frozen before GO") as generation:
        freeze_the_leader_while_a_generation_is_agreed_on(gang, generation)
    with gang.fault("the operator and rank 0 are killed"):
        holder, pod = cluster.leader()
        operator, first = operator_of(pod), gang.process(0)
        os.kill(operator, signal.SIGKILL)
        os.kill(first, signal.SIGKILL)
        leads_another(cluster, holder)
    with gang.fault(f"the API server is away for {AWAY} s", costs_a_member=False):
        begun = time.monotonic_ns()
        api_server_is_away(gang)
        gang.makes_steps(20)
        away.append(("the API server", begun, time.monotonic_ns()))

    step = gang.ledgers.step()
    gang.hurry()
    digest = reference(tmp_path / "alone", *FLAGS, f"--steps={STEPS}")
    at_the_end = gang.finish()
    result = e2e.ledger_verdict(gang.ledgers.folder, tmp_path / "alone")
    gang.print_table(result, tmp_path / "alone")
    bound = gang.longest_allowed()
    longest = {what: gang.stood_still(begun, ended) for what, begun, ended in away}
    undisturbed = gang.undisturbed()
    print(f"all faults were made by step {step} of {STEPS}; of {len(undisturbed)} gaps without a fault 99 in 100 were "
          "within "
          f"{1000 * p99(undisturbed):.0f} ms, the longest was {1000 * max(undisturbed):.0f} ms; the longest while "
          "these were away: "
          + ", ".join(f"{what} {1000 * seconds:.0f} ms" for what, seconds in longest.items()))
    assert result.violations == []
    assert result.superseded == 0, \
        "what was committed was in somebody's memory all the time, and then in the last checkpoint"
    assert at_the_end == digest
    assert all(seconds <= bound for seconds in longest.values()), (longest, bound)


def test_no_member_is_lost_while_nodes_are_not_ready_after_an_api_outage(operators, job):
    gang = Gang(operators, job, "unfound", *FLAGS, pace=PACE, steps=4000, gpusPerNode=8)
    with gang.fault("the API server is away", costs_a_member=False):
        api_server_is_away(gang)
        # Until the kubelets have found it again, and kube-proxies the new leader, that sees dead nodes and silent
        # agents.
        operators.kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=120s", deadline=150)
        gang.makes_steps(20)


# --- the source of a state dies while it gives it ---

WIDTH = 1536  # so that the state takes many times as long to be sent as a look at how much is there
LARGE = ["--model=mlp", f"--width={WIDTH}", "--layers=5", "--batch-size=6", "--micro-batch-size=2", "--threads=1",
         "--seed=7", "--log-every=10", "--deterministic"]
STATE = 12 * 4 * WIDTH * WIDTH  # bytes, or a little more: parameters and two moments of each


def received(pid):
    """Bytes that the pod of a process has received so far."""
    with open(f"/proc/{pid}/net/dev", encoding="utf-8") as lines:
        return sum(int(line.split(":")[1].split()[0])
                   for line in lines if ":" in line and not line.strip().startswith("lo:"))


def test_a_rank_that_dies_while_it_sends_its_state_tears_no_other_state(cluster, job, tmp_path):
    gang = Gang(cluster, job, "halves", *LARGE, pace=0.1, steps=100)
    with gang.fault("the source dies in the transfer") as generation:
        agent, source = gang.process(2, "lockstep-agent"), gang.process(1)
        gang.kill_process(2)
        gang.until("the others go on", lambda: gang.ledgers.trains_with(2, generation, steps=1))
        pod = gang.pod(2)["metadata"]["name"]
        (receiver,) = e2e.wait_for("its process is there again",
                                   lambda: e2e.processes("lockstep-trainer", LOCKSTEP_POD_NAME=pod), 30, 0.02)
        before = received(agent)
        # The receiver is stopped in the middle, so that the source dies there and not a moment later.
        e2e.wait_for("a third of the state is there", lambda: received(agent) - before > STATE / 3, 30, every=0)
        os.kill(receiver, signal.SIGSTOP)
        try:
            os.kill(source, signal.SIGKILL)
            share = (received(agent) - before) / STATE
            killed = time.monotonic_ns()
        finally:
            os.kill(receiver, signal.SIGCONT)
        print(f"\nthe source died when {100 * share:.0f} % of {STATE / 1e6:.0f} MB were there")
        assert share < 0.95, "the state was there already"
    digest = reference(tmp_path / "alone", *LARGE, "--steps=100")
    at_the_end = gang.finish()
    result = e2e.ledger_verdict(gang.ledgers.folder, tmp_path / "alone")
    gang.print_table(result, tmp_path / "alone")
    over = [line for lines in gang.ledgers.lines.values()
            for line in lines[1:2] if line["world"] == NODES and line["ns"] < killed
            and line["generation"] > generation]
    assert not over, f"the transfer was over when the source died: {over}"
    assert result.violations == []
    assert at_the_end == digest
