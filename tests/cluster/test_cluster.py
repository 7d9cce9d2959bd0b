#!/usr/bin/python3
"""The test of the test cluster: brings up real ones and checks what a user would check.

    tests/cluster/test_cluster.py [WORD...]      only the checks whose name holds one of the words

Needs root. Ends with `N passed, N failed, N skipped`; leaves nothing behind, even if it is killed.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from lockstep_cluster import cgroups, processes, teardown, up  # noqa: E402
from lockstep_cluster.host import Problem  # noqa: E402
from lockstep_cluster.layout import SLOTS, Cluster, claims  # noqa: E402
from test_support import (  # noqa: E402
    HERE,
    KILLED,
    MAIN,
    NAMES,
    SECOND,
    cache,
    cluster,
    expect,
    finished,
    get,
    kubectl,
    machine,
    new_since,
    node_ready,
    phase,
    pod,
    programs,
    remains,
    server_runs,
    stands_still,
    state,
    until,
)

CHECKS = []
BEFORE = []  # the state of the machine before the first check


def check(function):
    """Registers a check; they run in the order of this file."""
    CHECKS.append(function)
    return function


@check
def help_tells_every_command_with_an_example():
    text = cluster("--help", name=None)
    words = ("up down power-off power-on cut uncut kill-kubelet kill-api-server start-api-server load kubeconfig "
             "status logs exec volume")
    for word in words.split():
        expect(re.search(rf"^ +{word}\b", text, re.MULTILINE), f"--help does not tell {word}")
        expect("example" in cluster(word, "--help", name=None), f"{word} --help has no example")


@check
def a_cluster_comes_up_ready_with_eight_gpus_per_node():
    out = cluster("up", "--audit", "--owner", os.getpid())
    expect(out.splitlines()[-1] == f"export KUBECONFIG={cache()}/run/{MAIN}/kubeconfig", f"the last line is {out!r}")
    nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    expect([node["metadata"]["name"] for node in nodes] == ["n1", "n2", "n3"], "not the nodes n1, n2, n3")
    for node in nodes:
        expect(node["status"]["allocatable"].get("nvidia.com/gpu") == "8", "a node without 8 GPUs")
        expect(
            {"lockstep.dev/block", "lockstep.dev/rack"} <= set(node["metadata"]["labels"]),
            "a node without topology labels",
        )
        expect(node_ready(node["metadata"]["name"]), "a node that is not Ready")


@check
def up_of_a_cluster_that_is_up_says_so_and_other_wishes_are_refused():
    begun = time.monotonic()
    expect("export KUBECONFIG=" in cluster("up", "--audit"), "no kubeconfig")
    expect(time.monotonic() - begun < 5, "it took long")
    expect("down --name selftest" in cluster("up", "--audit", "--nodes", "2", fails=True), "no advice")
    said = cluster("up", "--audit", "--owner", os.getppid(), fails=True)
    expect(f"belongs to process {os.getpid()}" in said, f"another owner is not refused: {said}")


@check
def an_owner_gets_no_cluster_that_another_one_started():
    mine = teardown.identity(os.getpid())
    theirs = teardown.identity(os.getppid())
    for owner_of_it, owner, whole, sentence in (
        (mine, os.getpid(), False, ""),
        (theirs, os.getpid(), True, f"belongs to process {os.getppid()}"),
        (theirs, None, True, ""),
        (theirs, None, False, f"belongs to process {os.getppid()}"),
        (None, os.getpid(), True, "was started without --owner"),
        (None, os.getpid(), False, ""),  # the remains of one before a reboot
        (None, None, True, ""),
    ):
        said = ""
        try:
            up.require_own("a", {"ready": True, "owner": owner_of_it}, owner, whole)
        except Problem as problem:
            said = str(problem)
        expect(sentence in said if sentence else not said, f"{owner_of_it}, {owner}, {whole}: {said!r}")


@check
def bad_words_get_one_sentence():
    for words, name, sentence in (
        (("up",), "Bad_Name", "cannot name a cluster"),
        (("up", "--nodes", "99"), "other", "has 1 to 15 nodes"),
        (("power-off", "n9"), MAIN, "its nodes are: n1, n2, n3"),
        (("power-on", "n1"), MAIN, "is on already"),
        (("load", "/etc/hostname"), MAIN, "is not an image archive"),
        (("logs", "nothing"), MAIN, "there are: coredns"),
        (("volume", "nowhere", "x"), MAIN, "no namespace 'nowhere'"),
        (("status-of",), None, "invalid choice"),
        (("kubeconfig",), "absent", "make it with: cluster up --name absent"),
    ):
        said = cluster(*words, name=name, fails=True)
        expect(sentence in said and "Traceback" not in said, f"{words}: {said}")


@check
def what_a_machine_lacks_is_said_before_anything_is_built():
    begun = time.monotonic()
    said = subprocess.run(
        ["unshare", "--mount", "sh", "-c", 'umount --recursive --lazy /sys/fs/cgroup && exec "$0" check',
         HERE / "cluster"],
        capture_output=True, text=True, timeout=60, check=False,
    )
    expect(said.returncode == 1 and "are not mounted under /sys/fs/cgroup" in said.stderr, said)
    expect(time.monotonic() - begun < 10, "it took as long as a build")
    expect(cluster("check") == "", "this machine can run one")
    steps = subprocess.run(["make", "-n", "cluster"], cwd=HERE.parents[1], capture_output=True, text=True, check=True)
    expect(steps.stdout.index("cluster check") < steps.stdout.index("build.sh"), steps.stdout)


# Inside the pods of this file no event says when a name resolves or a port is open: they poll.
CALL_SERVER = "until nc -w 5 server.gang 9000 </dev/null; do sleep 0.1; done"


@check
def a_pod_finds_another_node_s_pod_by_its_headless_name_and_talks_to_it():
    server_runs()
    pod(
        "client",
        "n2",
        "until nslookup server.gang.default.svc.cluster.local; do sleep 0.1; done;"
        " nc -w 5 server.gang 9000 </dev/null && exit 17",
    )
    expect(finished("client") == 17, "not exit code 17: " + kubectl("logs", "client"))
    expect("hello from server" in kubectl("logs", "client"), "no greeting in the log")


@check
def a_service_is_reached_from_its_own_node_and_from_another():
    server_runs()
    for node in ("n1", "n3"):
        pod(f"visitor-{node}", node, "until nc -w 2 front 9000 </dev/null; do sleep 0.1; done")
        expect(finished(f"visitor-{node}") == 0, "no success")
        expect("hello from server" in kubectl("logs", f"visitor-{node}"), "no greeting")


@check
def a_loaded_image_reaches_the_api_server_with_its_service_account_token():
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(
            [
                HERE / "image",
                "--name",
                "docker.io/lockstep/selftest:1",
                "--file",
                f"{programs()}/kubectl:/kubectl",
                "--entrypoint",
                "/kubectl",
                "--dir",
                "/tmp:1777",
                "--file",
                "/bin/busybox:/bin/sh",
                "--out",
                f"{work}/x.tar",
            ],
            check=True,
        )
        cluster("load", f"{work}/x.tar")
    pod(
        "caller",
        "n3",
        "/kubectl auth whoami -o jsonpath='{.status.userInfo.username}' && /kubectl get --raw /version",
        image="docker.io/lockstep/selftest:1",
    )
    expect(finished("caller") == 0, "it failed: " + kubectl("logs", "caller"))
    log = kubectl("logs", "caller")
    expect("system:serviceaccount:default:default" in log and '"gitVersion"' in log, log)
    expect(
        "system:serviceaccount:default:default" in pathlib.Path(state()["audit_log"]).read_text(),
        "the audit log does not tell of it",
    )


@check
def a_volume_is_written_by_pods_of_two_nodes_and_seen_on_the_host():
    folder = pathlib.Path(cluster("volume", "default", "shared").strip())
    for node in ("n1", "n2"):
        pod(f"writer-{node}", node, f"echo {node} >>/shared/lines", claim="shared")
        expect(finished(f"writer-{node}") == 0, "no success")
    expect((folder / "lines").read_text() == "n1\nn2\n", "not both lines")


@check
def exec_gives_the_node_s_view_and_the_exit_status():
    expect(cluster("exec", "n2", "--", "hostname").strip() == "n2", "another host name")
    done = subprocess.run([HERE / "cluster", "exec", "--name", MAIN, "n2", "--", "sh", "-c", "exit 3"], timeout=60)
    expect(done.returncode == 3, f"exit status {done.returncode}")


@check
def an_api_server_that_is_killed_comes_back_with_all_that_it_knew():
    server_runs()
    cluster("kill-api-server")
    expect("is off already" in cluster("kill-api-server", fails=True), "a second kill is not refused")
    expect(not state()["processes"].get("kube-apiserver"), "status does not tell it")
    cluster("start-api-server")
    expect("is on already" in cluster("start-api-server", fails=True), "a second start is not refused")
    expect(phase("server") == "Running", "the pod is not what it was")


@check
def pods_and_gpus_survive_a_kubelet_that_dies_and_comes_back():
    server_runs()
    before = get("pod", "server")["status"]["containerStatuses"][0]["containerID"]
    cluster("kill-kubelet", "n1")
    expect(state()["nodes"][0]["kubelet"] == "off", "status does not tell it")
    cluster("start-kubelet", "n1")
    pod("after", "n1", CALL_SERVER)
    expect(finished("after") == 0, "the server is gone")
    expect(get("pod", "server")["status"]["containerStatuses"][0]["containerID"] == before, "another container")
    expect(get("node", "n1")["status"]["allocatable"]["nvidia.com/gpu"] == "8", "no GPUs")


@check
def a_node_without_power_is_not_ready_in_ten_seconds_and_comes_back():
    server_runs()
    pod("victim", "n2", "sleep 1000")
    until("the victim ran", lambda: phase("victim") == "Running")
    cluster("power-off", "n2")
    expect(state()["nodes"][1]["power"] == "off", "status does not tell it")
    seconds = until("n2 was NotReady", lambda: not node_ready("n2"), 20)
    print(f"      NotReady after {seconds:.1f} s", end="")
    expect(seconds < 12, f"only after {seconds:.1f} s")
    seconds = until(
        "its pod was marked for deletion", lambda: "deletionTimestamp" in get("pod", "victim")["metadata"], 30
    )
    print(f", its pod evicted {seconds:.1f} s later")
    cluster("power-on", "n2")
    expect(node_ready("n2"), "n2 is not Ready")
    until("the victim's pod was gone", lambda: phase("victim") == "gone")
    pod("reborn", "n2", CALL_SERVER)
    expect(finished("reborn") == 0, "a pod on n2 cannot reach n1")


@check
def a_replaced_node_is_a_new_one_that_has_the_loaded_images():
    uid = get("node", "n3")["metadata"]["uid"]
    cluster("power-off", "n3")
    cluster("power-on", "n3", "--replaced")
    expect(get("node", "n3")["metadata"]["uid"] != uid, "it is the same Node object")
    expect(get("node", "n3")["status"]["allocatable"]["nvidia.com/gpu"] == "8", "no GPUs")
    kubectl("delete", "pod", "caller", "--ignore-not-found")
    pod("caller2", "n3", "/kubectl version --client", image="docker.io/lockstep/selftest:1")
    expect(finished("caller2") == 0, "the image is not there")


@check
def a_cut_cable_breaks_no_connection():
    pod("sink", "n1", "tail -f /dev/null | nc -l -p 9100", subdomain="gang", hostname="sink")
    until("the sink ran", lambda: phase("sink") == "Running")
    address = get("pod", "sink")["status"]["podIP"]
    pod("source", "n2", f"i=0; while true; do i=$((i+1)); echo $i; sleep 0.1; done | nc {address} 9100")

    def lines():
        return len(kubectl("logs", "sink").split())

    until("lines came", lambda: lines() > 3)
    cluster("cut", "n2")
    expect(state()["nodes"][1]["cable"] == "cut", "status does not tell it")
    until("no more lines came", lambda: stands_still(lines))
    count = lines()
    cluster("uncut", "n2")
    seconds = until("lines came again", lambda: lines() > count + 3, 30)
    numbers = [int(word) for word in kubectl("logs", "sink").split()]
    expect(numbers == list(range(1, len(numbers) + 1)), "a line is missing")
    print(f"      the stream went on {seconds:.1f} s after the cable was back, nothing lost")
    until("n2 was Ready", lambda: node_ready("n2"))


@check
def a_second_cluster_lives_beside_the_first():
    server_runs()
    cluster("up", "--nodes", "1", "--kwok", "20", "--gpus-per-node", "4", "--owner", os.getpid(), name=SECOND)
    expect(state(SECOND)["api_server"] != state()["api_server"], "the same address")
    nodes = json.loads(kubectl("get", "nodes", "-o", "json", name=SECOND))["items"]
    expect(len(nodes) == 21, f"{len(nodes)} nodes")
    gpus = [int(node["status"]["allocatable"]["nvidia.com/gpu"]) for node in nodes]
    expect(sorted(gpus) == [4] + 20 * [8], f"GPUs {gpus}")
    pod("one", "n1", "exit 0", where=SECOND)
    expect(finished("one", SECOND) == 0, "no success")
    cluster("down", name=SECOND)
    expect(remains(SECOND) == [], f"left: {remains(SECOND)}")
    expect(state()["state"] == "up" and node_ready("n1"), "the first one was hurt")
    pod("still", "n2", CALL_SERVER)
    expect(finished("still") == 0, "the first one's network was hurt")


@check
def a_killed_up_is_cleaned_away_by_down_and_by_the_next_up_whose_cluster_goes_when_its_owner_is_killed():
    owner = subprocess.Popen(["sleep", "1000"])
    for step, after in (("down", "etcd and API server started"), ("down", "nodes started"), ("up", "API server ready")):
        maker = subprocess.Popen(
            [HERE / "cluster", "up", "--name", KILLED, "--nodes", "1", "--owner", str(os.getpid())],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for line in maker.stderr:
            if after in line:
                break
        maker.kill()
        maker.wait()
        maker.stderr.close()
        if step == "up":
            cluster("up", "--nodes", "1", "--owner", owner.pid, name=KILLED)
            expect(node_ready("n1", KILLED), "not Ready")
        else:
            expect(remains(KILLED) != [], "the kill came too early to show anything")
            cluster("down", name=KILLED)
            expect(remains(KILLED) == [], f"after a kill at '{after}' is left: {remains(KILLED)}")
    # The next test may start before the guard has seen the end of the owner.
    guard, _ = (cache() / "run" / KILLED / "processes/guard").read_text().split()
    os.kill(int(guard), signal.SIGKILL)
    owner.kill()
    owner.wait()
    owner = subprocess.Popen(["sleep", "1000"])
    cluster("up", "--nodes", "1", "--owner", owner.pid, name=KILLED)
    owner.kill()
    owner.wait()
    seconds = until("the cluster was gone", lambda: remains(KILLED) == [], 30)
    print(f"      gone {seconds:.1f} s later")


@check
def a_cluster_that_was_killed_with_its_root_folder_holds_no_slot():
    slot = next(slot for slot in reversed(SLOTS) if slot not in claims() and not cgroups.of_slot(slot))
    bridge, name = pathlib.Path(f"/sys/class/net/ls{slot}br"), f"lockstep-gone-{slot}"
    process = subprocess.Popen(["sleep", "1000"])
    try:
        subprocess.run(["ip", "link", "add", bridge.name, "type", "bridge"], check=True)
        teardown.remove_abandoned()
        expect(bridge.exists(), "it took the bridge of a cluster that has no cgroups yet")
        for tree in cgroups.trees():
            (tree / name / "control").mkdir(parents=True)
        for top in cgroups.of_slot(slot):
            if (top / "pids.current").exists():
                (top / "control/cgroup.procs").write_text(str(process.pid))
        teardown.remove_abandoned()
        expect(bridge.exists() and cgroups.of_slot(slot), "it took a cluster that has a process")
        process.kill()
        process.wait()
        teardown.remove_abandoned()
        expect(not bridge.exists() and not cgroups.of_slot(slot), "it is left")
    finally:
        process.kill()
        process.wait()
        cgroups.remove_folders(cgroups.of_slot(slot))
        subprocess.run(["ip", "link", "delete", bridge.name], capture_output=True)


@check
def down_leaves_nothing_behind():
    cluster("down")
    for name in NAMES:
        expect(remains(name) == [], f"left: {remains(name)}")
    new = new_since(BEFORE)
    expect(not new, f"new on this machine: {new}")


def main(words):
    if os.geteuid() != 0:
        print("test_cluster: the test cluster needs root; run it through sudo.\n0 passed, 0 failed, 1 skipped")
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(130))
    programs()
    owners = {name: (Cluster(name).read_spec() or {}).get("owner") for name in NAMES}
    for name, owner in owners.items():
        if owner and processes.lives(owner):
            print(f"test_cluster: the run of process {owner.split(':')[0]} has cluster {name}; wait for its end.")
            print("0 passed, 1 failed, 0 skipped")
            return 1
    for name in NAMES:
        cluster("down", name=name)
    BEFORE.extend(machine())
    passed = failed = skipped = 0
    begun = time.monotonic()
    try:
        for function in CHECKS:
            title = function.__name__.replace("_", " ")
            if words and not any(word in title for word in words) and "comes up" not in title:
                skipped += 1
                continue
            started = time.monotonic()
            try:
                function()
            except Exception as error:  # any error fails this check alone
                failed += 1
                print(f"FAIL  {title}: {type(error).__name__}: {error}", flush=True)
            else:
                passed += 1
                print(f"ok    {title}  ({time.monotonic() - started:.1f} s)", flush=True)
    finally:
        for name in NAMES:
            cluster("down", name=name)
    print(f"test cluster: {time.monotonic() - begun:.0f} s\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
