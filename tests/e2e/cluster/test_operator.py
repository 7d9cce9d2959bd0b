"""The operator on a real cluster: an idle one writes its Lease alone; the memory that it takes is printed."""

import collections
import os
import time

import e2e
import jobs

OPERATOR = f"system:serviceaccount:{e2e.NAMESPACE}:"


def test_an_operator_with_nothing_to_do_writes_only_its_lease(cluster, job):
    """One job has ended; the others run and make no progress."""
    window = int(os.environ.get("LOCKSTEP_IDLE_SECONDS", "30"))  # ten minutes in the long form
    running = int(os.environ.get("LOCKSTEP_IDLE_JOBS", "10"))  # a hundred there
    done = job(jobs.shell("idle", "exit 0"))
    names = [job(jobs.shell(f"idle-{number}", "exec sleep 7200")) for number in range(running)]
    cluster.wait_condition(done, "Succeeded", deadline=90 + 3 * running)
    for name in names:
        cluster.wait_condition(name, "Running", deadline=90 + 3 * running)
    begin = time.time() + 20  # events and the last status write are out by then
    e2e.wait_for("the window has passed", lambda: time.time() > begin + window, deadline=window + 40, every=1)
    counts = collections.Counter()
    for entry in cluster.audit():
        if not entry["user"]["username"].startswith(OPERATOR):
            continue
        inside = begin <= e2e.seconds_of(entry["requestReceivedTimestamp"]) <= begin + window
        if inside and entry["verb"] not in ("watch", "get"):
            counts[f"{entry['verb']} {entry['objectRef']['resource']}"] += 1
    print(f"\nrequests of the operator in {window} s beside {running} jobs that run without progress: {dict(counts)}")
    assert set(counts) <= {"update leases", "patch leases"}
    assert all("Running" in e2e.true_conditions(cluster.job(name)) for name in names)


def test_the_resident_memory_of_the_operator_is_printed(cluster):
    for pod in cluster.get("pods", "-n", e2e.NAMESPACE)["items"]:
        node = pod["spec"]["nodeName"]
        uid = pod["metadata"]["uid"].replace("-", "_")
        text = cluster.command("exec", node, "--", "sh", "-c",
                               "for p in /proc/[0-9]*; do grep -qs lockstep-operat $p/comm && echo $(cat $p/cgroup | "
                               "tr '\\n' ' ') "
                               "$(grep VmRSS $p/status); done; true").stdout
        lines = [line for line in text.splitlines() if uid in line or pod["metadata"]["uid"] in line]
        assert lines, text
        kib = int(lines[0].split("VmRSS:")[1].split()[0])
        print(f"\n{pod['metadata']['name']}: {kib / 1024:.1f} MiB resident (goal 15)")
        assert kib < 64 * 1024
