"""A node: its processes in namespaces of their own, its power cord, its cable, its kubelet."""

import datetime
import http.client
import os
import pathlib
import shutil
import signal
import urllib.error
import urllib.request

from . import cgroups, network, node_config, processes
from .host import Fatal, Problem, wait_until

READY_SECONDS = 120
SYSTEM = ("containerd", "kubelet", "kube-proxy")


def leader(node):
    """Name of the record of the process whose death ends the node."""
    return f"node-{node}"


def is_on(cluster, node):
    return processes.recorded(cluster, leader(node)) is not None


def start(cluster, node, bin_folder, gpus):
    """Plugs the power cord in; returns while the node still boots."""
    folder = cluster.node_folder(node)
    for name in ("root", "var", "config"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    node_config.write(cluster, node, gpus)
    system = cgroups.make_node(cluster, node)
    outside = os.readlink("/proc/self/ns/net")
    pid = processes.spawn(
        cluster,
        leader(node),
        [
            "unshare",
            "--net",
            "--mount",
            "--propagation=unchanged",
            "--uts",
            "--ipc",
            "--pid",
            "--fork",
            "--kill-child",
            "bash",
            node_config.HERE / "node" / "enter.sh",
            folder,
            bin_folder,
            cluster.images,
            cluster.shared,
        ],
        system,
        processes.log_of(cluster, f"{node}/boot"),
    )
    wait_until(
        f"node {node} had a network of its own", lambda: _own_network(cluster, node, pid, outside), 30, interval=0.01
    )
    network.plug_in(cluster, node, pid)


def _own_network(cluster, node, pid, outside):
    require_on(cluster, node)
    return os.readlink(f"/proc/{pid}/ns/net") != outside


def require_on(cluster, node):
    """For conditions of wait_until: ends the wait if the node died by itself."""
    if not is_on(cluster, node):
        raise Fatal(
            f"Node {node} ended by itself. The end of its "
            f"log:\n{processes.tail(processes.log_of(cluster, f'{node}/boot'))}"
        )


def wait_ready(cluster, api, node, gpus):
    """Returns when this boot of the node is Ready, with its GPUs, and its kube-proxy has written its rules."""
    boot = node_config.boot_id(cluster, node)

    def ready():
        require_on(cluster, node)
        for component in SYSTEM:
            _require_component(cluster, node, component)
        thing = api.get("Node", node)
        if not thing or thing["status"].get("nodeInfo", {}).get("bootID") != boot:
            raise Problem("the kubelet has not registered")
        conditions = {entry["type"]: entry for entry in thing["status"]["conditions"]}
        if conditions["Ready"]["status"] != "True":
            raise Problem("the node is not Ready: " + conditions["Ready"]["message"])
        if gpus and thing["status"]["allocatable"].get("nvidia.com/gpu") != str(gpus):
            raise Problem("the node has no GPUs yet")
        return True

    wait_until(f"node {node} was Ready; see 'cluster logs {node}/kubelet'", ready, READY_SECONDS, interval=0.1)
    wait_until(
        f"kube-proxy of {node} had written its rules; see 'cluster logs {node}/kube-proxy'",
        lambda: _proxy_is_synced(cluster, node),
        READY_SECONDS,
        interval=0.1,
    )


def _require_component(cluster, node, component):
    """Fatal if a daemon of the node was started and has ended."""
    state = component_pid(cluster, node, component)
    if state == 0:
        raise Fatal(
            f"{component} of node {node} ended by itself. The end of its log:\n"
            f"{processes.tail(processes.log_of(cluster, f'{node}/{component}'))}"
        )


def _proxy_is_synced(cluster, node):
    try:
        with urllib.request.urlopen(f"http://{cluster.node_address(node)}:10256/healthz", timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, http.client.HTTPException) as error:
        raise OSError(str(error)) from None


def power_off(cluster, node):
    """Pulls the power cord: cuts the cable first, so that the node closes no connection to the others."""
    network.unplug(cluster, node)
    processes.kill(cluster, leader(node))
    left = processes.kill_members(cluster, below=node)
    if left:
        raise Problem(f"Processes {sorted(left)} of node {node} do not end; is the disk stuck?")
    cgroups.remove(cluster, below=node)


def wipe(cluster, node):
    """Removes what a replaced machine has lost: its disk and its identity."""
    for name in ("var", "config"):
        shutil.rmtree(cluster.node_folder(node) / name, ignore_errors=True)


def init_pid(cluster, node):
    """The host's number of the node's process 1, or None when the node is off."""
    for pid in cgroups.members(cluster, below=f"{node}/system"):
        if _inner_numbers(pid)[1:] == [1]:
            return pid
    return None


def _inner_numbers(pid):
    """A process's numbers, the host's first, then one for each nested PID namespace."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return [int(word) for word in line.split()[1:]]
    except (FileNotFoundError, ProcessLookupError):
        pass
    return []


def component_pid(cluster, node, component):
    """The host's number of a daemon of the node; None before it was started, 0 when it is dead."""
    first = init_pid(cluster, node)
    if first is None:
        return None
    try:
        inner, begun = pathlib.Path(f"/proc/{first}/root/run/lockstep/{component}").read_text().split()
    except (OSError, ValueError):
        return None
    for pid in cgroups.members(cluster, below=f"{node}/system"):
        if _inner_numbers(pid)[1:] == [int(inner)] and str(processes.start_time(pid)) == begun:
            return pid
    return 0


def kill_kubelet(cluster, node):
    """Ends the kubelet alone; the node's containers keep running."""
    pid = component_pid(cluster, node, "kubelet")
    if not pid:
        raise Problem(f"No kubelet runs on node '{node}'.")
    os.kill(pid, signal.SIGKILL)
    wait_until("the kubelet was gone", lambda: processes.start_time(pid) is None, 10, interval=0.01)


def start_kubelet(cluster, node):
    """Starts the kubelet again in the running node."""
    if component_pid(cluster, node, "kubelet"):
        raise Problem(f"The kubelet of node '{node}' runs.")
    record = f"start-kubelet-{node}"
    processes.spawn(
        cluster,
        record,
        [*enter(cluster, node), "setsid", "--fork", "/bin/bash", "/lockstep/node/start.sh", "kubelet"],
        cgroups.make_node(cluster, node),
        processes.log_of(cluster, f"{node}/boot"),
    )
    processes.forget(cluster, record)
    wait_until("the kubelet ran", lambda: component_pid(cluster, node, "kubelet"), 10)


def enter(cluster, node):
    """The prefix that runs a command inside the node."""
    pid = init_pid(cluster, node)
    if pid is None:
        raise Problem(f"Node '{node}' is powered off; use 'cluster power-on {node}'.")
    return ["nsenter", f"--target={pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"]


def wait_heartbeat(cluster, api, node, since):
    """Returns when the kubelet has renewed its lease after `since` (seconds since 1970) and the node is Ready."""
    moment = datetime.datetime.fromtimestamp(since, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def beats():
        conditions = {entry["type"]: entry["status"] for entry in api.get("Node", node)["status"]["conditions"]}
        return conditions["Ready"] == "True" and api.get("Lease", node, "kube-node-lease")["spec"]["renewTime"] > moment

    wait_until(f"node {node} was Ready again; see 'cluster logs {node}/kubelet'", beats, READY_SECONDS, interval=0.1)
