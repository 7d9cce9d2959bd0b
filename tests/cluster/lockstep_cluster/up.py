"""Brings a cluster up, from nothing to Ready nodes and working names."""

import pathlib
import signal
import subprocess
import time

from . import controlplane, fleet, images, nodes, preflight, processes, sysctls, teardown
from .api import Api
from .host import Interrupted, Problem, run
from .layout import MAX_NODES
from .network import make_bridge
from .node_config import HERE

PROGRAMS = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
    "coredns",
]


def binaries(wanted):
    """The folder with the cluster's programs; builds missing ones first (progress to stderr)."""
    done = subprocess.run([str(HERE / "binaries.sh"), *wanted], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Problem("The programs of the test cluster could not be built; see the error above.")
    return pathlib.Path(done.stdout.strip().splitlines()[-1])


def is_whole(cluster):
    """True if `up` completed, no process has died since, and the API server answers. Nodes may be off."""
    spec = cluster.read_spec()
    if not spec or not spec.get("ready") or not cluster.slot:
        return False
    control = [name for name in processes.names(cluster) if not name.startswith("node-")]
    if not control or any(processes.recorded(cluster, name) is None for name in control):
        return False
    try:
        return Api(cluster).call("GET", "/readyz", seconds=5) == "ok"
    except (OSError, Problem):
        return False


def is_orphaned(spec):
    """Whether the owner of a cluster that came up has ended; its guard takes it down, or was killed."""
    return bool(spec.get("ready") and spec.get("owner") and not processes.lives(spec["owner"]))


def require_own(name, spec, owner, whole):
    """Raises a Problem if the cluster, which is not orphaned, is there and another one started it."""
    if not spec.get("ready"):
        return
    if not spec.get("owner"):
        if owner and whole:
            raise Problem(
                f"Cluster '{name}' was started without --owner: run 'cluster down --name {name}' first,"
                " or use another --name."
            )
        return
    holder = int(spec["owner"].split(":")[0])
    if owner != holder and (owner or not whole):
        raise Problem(
            f"Cluster '{name}' belongs to process {holder}, which runs: wait for its end, or use another --name."
        )


def bring_up(cluster, say, asked, owner, keep):
    """Leaves the cluster up, or raises a Problem and then leaves nothing (with keep: everything, for inspection).

    `asked`: nodes, gpus (of each), kwok (nodes of the fleet), audit, default_rates."""
    if not 1 <= asked["nodes"] <= MAX_NODES:
        raise Problem(f"--nodes {asked['nodes']}: a cluster has 1 to {MAX_NODES} nodes.")
    if asked["gpus"] < 0 or not 0 <= asked["kwok"] <= 5000:
        raise Problem("--gpus-per-node must not be negative, and --kwok must be 0 to 5000.")
    spec, whole = cluster.read_spec() or {}, is_whole(cluster)
    orphaned = is_orphaned(spec)
    if not orphaned:
        require_own(cluster.name, spec, owner, whole)
    if whole and not orphaned:
        have = {key: spec.get(key, False) for key in asked}
        if have != asked:
            raise Problem(
                f"Cluster '{cluster.name}' is up with {have}, you asked for {asked}:"
                f" run 'cluster down --name {cluster.name}' first."
            )
        say(f"cluster {cluster.name} is up already")
        return
    preflight.check(asked["nodes"])
    bin_folder = binaries(PROGRAMS + (["kwok"] if asked["kwok"] else []))
    if cluster.read_spec() or cluster.slot:
        say(f"cleaning up what is left of an earlier cluster {cluster.name}")
        teardown.take_down(cluster)

    teardown.remove_abandoned()

    def interrupted(number, _):
        raise Interrupted(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, interrupted)
    try:
        _make(cluster, say, asked, bin_folder, owner)
    except BaseException:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if keep:
            say(f"left as it is: look with 'cluster logs', then 'cluster down --name {cluster.name}'")
            raise
        say("taking down what was made")
        teardown.take_down(cluster)
        raise


def _make(cluster, say, asked, bin_folder, owner):
    begun = time.monotonic()

    def done(what):
        say(f"{time.monotonic() - begun:5.1f} s  {what}")

    cluster.folder.mkdir(parents=True, exist_ok=True)
    cluster.claim()
    spec = {**asked, "bin": str(bin_folder), "owner": None}
    if owner:
        spec["owner"] = teardown.identity(owner)
    cluster.write_spec(**spec, ready=False)
    if owner:
        teardown.start_guard(cluster, spec["owner"])
    sysctls.remember_and_raise()
    make_bridge(cluster)
    cluster.data.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "mode=755,size=60%", f"lockstep-{cluster.name}", cluster.data)
    run("mount", "--make-private", cluster.data)
    for folder in (cluster.logs, cluster.shared, cluster.images):
        folder.mkdir()
    cluster.shared.chmod(0o777)
    controlplane.make_credentials(cluster)
    controlplane.start_store(cluster, bin_folder, asked["audit"])
    images.prepare(cluster)
    done("certificates, images, etcd and API server started")
    api = controlplane.wait_for_store(cluster)
    done("API server ready")
    grace = fleet.node_grace_seconds(asked["kwok"])
    controlplane.start_controllers(cluster, bin_folder, grace, asked["default_rates"])
    for node in cluster.nodes():
        nodes.start(cluster, node, bin_folder, asked["gpus"])
    done(f"controllers and {asked['nodes']} nodes started")
    if asked["kwok"]:
        fleet.start(cluster, bin_folder, asked["kwok"])
        fleet.make_nodes(api, asked["kwok"], 8)
    controlplane.wait_for_controllers(cluster, api)
    for node in cluster.nodes():
        nodes.wait_ready(cluster, api, node, asked["gpus"])
        done(f"node {node} ready")
    if asked["kwok"]:
        fleet.wait_ready(cluster, api, asked["kwok"])
        done(f"{asked['kwok']} nodes of the fleet ready")
    cluster.write_spec(**spec, ready=True)
    done(f"cluster {cluster.name} is up")
