"""The command line, and the file behind each command."""

import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import sys
import time

from . import controlplane, images, network, nodes, preflight, processes, teardown, up, volumes
from .api import Api
from .host import Interrupted, Problem, wait_until
from .layout import Cluster, known_clusters

EXAMPLES = """examples:
  eval "$(tests/cluster/cluster up)"; kubectl get nodes          a cluster called 'a' with three nodes
  tests/cluster/cluster up --name big --nodes 1 --kwok 500       a second one beside it, with a fleet of fake nodes
  tests/cluster/cluster load operator.tar                        an image archive into every node of 'a'
  tests/cluster/cluster power-off n2; kubectl get nodes -w       n2 is NotReady after about 8 s
  tests/cluster/cluster down --all
"""


def say(sentence):
    print(sentence, file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(cluster, seconds=30):
    """One command at a time changes a cluster. The lock is on an open file, so a killed command does not keep it."""
    folder = cluster.folder.parent
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".{cluster.name}.lock"
    end = time.monotonic() + seconds
    while True:
        with open(path, "a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    file.seek(0)
                    raise Problem(
                        f"Process {file.read().strip()} is changing cluster '{cluster.name}'; wait for it or end it."
                    ) from None
                time.sleep(0.1)
                continue
            if not path.exists() or os.fstat(file.fileno()).st_ino != path.stat().st_ino:
                continue  # the one before us removed the file
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    folder.rmdir()
            return


def opened(asked, node=None):
    """The cluster of the command line, which must be up, its API client, and its spec."""
    cluster = Cluster(asked.name)
    spec = cluster.read_spec()
    if not spec or not spec.get("ready") or not cluster.slot:
        raise Problem(f"Cluster '{asked.name}' is not up; make it with: cluster up --name {asked.name}")
    if node:
        cluster.require_node(node)
    return cluster, Api(cluster), spec


def do_check(asked):
    preflight.check(asked.nodes)


def do_up(asked):
    cluster = Cluster(asked.name)
    with locked(cluster):
        wanted = {
            "nodes": asked.nodes,
            "gpus": asked.gpus_per_node,
            "kwok": asked.kwok,
            "audit": asked.audit,
            "default_rates": asked.default_rates,
        }
        up.bring_up(cluster, say, wanted, asked.owner, asked.keep)
    print(f"export KUBECONFIG={cluster.kubeconfig}")


def do_down(asked):
    if asked.when_gone:
        teardown.wait_until_gone(asked.when_gone)
    wanted = known_clusters() if asked.all else [asked.name]
    for name in wanted:
        with locked(Cluster(name), seconds=300 if asked.when_gone else 30):
            cluster = Cluster(name)
            if not cluster.folder.exists() and not cluster.slot:
                say(f"cluster {name} is not there")
                continue
            teardown.take_down(cluster)
            say(f"cluster {name} is down; nothing of it is left")
    if not wanted:
        say("there is no cluster")


def do_power_off(asked):
    cluster, _, _ = opened(asked, asked.node)
    with locked(cluster):
        if not nodes.is_on(cluster, asked.node):
            raise Problem(f"Node '{asked.node}' is off already.")
        nodes.power_off(cluster, asked.node)


def do_power_on(asked):
    cluster, api, spec = opened(asked, asked.node)
    with locked(cluster):
        if nodes.is_on(cluster, asked.node):
            raise Problem(f"Node '{asked.node}' is on already.")
        nodes.power_off(cluster, asked.node)  # the remains of a node that died by itself
        if asked.replaced:
            nodes.wipe(cluster, asked.node)
            api.delete("Node", asked.node)
        nodes.start(cluster, asked.node, spec["bin"], spec["gpus"])
        nodes.wait_ready(cluster, api, asked.node, spec["gpus"])


def do_cut(asked):
    cluster, _, _ = opened(asked, asked.node)
    network.set_cable(cluster, asked.node, up=False)


def do_uncut(asked):
    cluster, _, _ = opened(asked, asked.node)
    network.set_cable(cluster, asked.node, up=True)


def do_kill_kubelet(asked):
    cluster, _, _ = opened(asked, asked.node)
    nodes.kill_kubelet(cluster, asked.node)


def do_start_kubelet(asked):
    cluster, api, _ = opened(asked, asked.node)
    with locked(cluster):
        begun = time.time()
        nodes.start_kubelet(cluster, asked.node)
        nodes.wait_heartbeat(cluster, api, asked.node, begun)


def do_kill_api_server(asked):
    cluster, _, _ = opened(asked)
    with locked(cluster):
        if processes.recorded(cluster, "kube-apiserver") is None:
            raise Problem(f"The API server of cluster '{asked.name}' is off already.")
        processes.end(cluster, "kube-apiserver")
        # Its port is free only then.
        wait_until("the API server was gone", lambda: processes.recorded(cluster, "kube-apiserver") is None, 20)


def do_start_api_server(asked):
    cluster, _, spec = opened(asked)
    with locked(cluster):
        if processes.recorded(cluster, "kube-apiserver") is not None:
            raise Problem(f"The API server of cluster '{asked.name}' is on already.")
        controlplane.start_api_server(cluster, pathlib.Path(spec["bin"]), spec["audit"])
        controlplane.wait_api_server_ready(cluster)


def do_load(asked):
    cluster, _, _ = opened(asked)
    with locked(cluster, seconds=300):
        for archive in asked.archive:
            for name in images.load(cluster, archive):
                say(f"{name} is in every node of {cluster.name}")


def do_volume(asked):
    cluster, api, _ = opened(asked)
    print(volumes.make(cluster, api, asked.namespace, asked.claim, asked.size, not asked.no_claim))


def do_kubeconfig(asked):
    cluster, _, _ = opened(asked)
    print(cluster.kubeconfig)


def do_exec(asked):
    cluster, _, _ = opened(asked, asked.node)
    words = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
    if not words:
        raise Problem("Give a command, as in: cluster exec n1 -- ip route")
    whole = nodes.enter(cluster, asked.node) + words
    os.execvp(whole[0], whole)


def do_logs(asked):
    cluster = Cluster(asked.name)
    path = processes.log_of(cluster, asked.component)
    if not path.exists():
        there = sorted(file.stem for file in cluster.logs.glob("*.log"))
        there += [
            f"{node}/{file.stem}"
            for node in cluster.nodes()
            for file in sorted((cluster.node_folder(node) / "var/log").glob("*.log"))
        ]
        raise Problem(f"There is no log of '{asked.component}'; there are: {', '.join(there) or 'none'}.")
    if asked.path:
        print(path)
    elif asked.follow:
        os.execvp("tail", ["tail", "-n", "50", "-F", str(path)])
    else:
        with open(path, errors="replace") as file:
            shutil.copyfileobj(file, sys.stdout)


def do_status(asked):
    names = [asked.name] if asked.name else known_clusters()
    found = [_status(Cluster(name)) for name in names]
    if asked.json:
        print(json.dumps(found, indent=2))
        return
    for entry in found:
        print(f"cluster {entry['name']}: {entry['state']}")
        for key in ("kubeconfig", "api_server", "programs", "shared", "audit_log", "logs"):
            if entry.get(key):
                print(f"  {key + ':':<12} {entry[key]}")
        for node in entry.get("nodes", []):
            print(
                f"  {node['name']:<4} {node['address']:<14} power {node['power']:<4} cable {node['cable']:<5}"
                f" kubelet {node['kubelet']}"
            )
        for name, alive in entry.get("processes", {}).items():
            if not alive:
                print(f"  {name} is dead; see: cluster logs --name {entry['name']} {name}")
    if not found:
        print("there is no cluster")


def _status(cluster):
    spec = cluster.read_spec()
    if not spec or not cluster.slot:
        return {
            "name": cluster.name,
            "state": (
                "left half-made by a killed command; 'down' removes it"
                if cluster.folder.exists() or cluster.slot
                else "not there"
            ),
        }
    return {
        "name": cluster.name,
        "state": "up" if up.is_whole(cluster) else "starting or broken",
        "kubeconfig": str(cluster.kubeconfig),
        "api_server": cluster.api_server,
        "programs": spec["bin"],
        "shared": str(cluster.shared),
        "audit_log": str(cluster.audit_log) if spec["audit"] else None,
        "logs": str(cluster.logs),
        "slot": cluster.slot,
        "nodes": [
            {
                "name": node,
                "address": cluster.node_address(node),
                "pods": cluster.pods_of(node),
                "power": "on" if nodes.is_on(cluster, node) else "off",
                "cable": network.cable_state(cluster, node),
                "kubelet": "on" if nodes.component_pid(cluster, node, "kubelet") else "off",
            }
            for node in cluster.nodes()
        ],
        "processes": {name: processes.recorded(cluster, name) is not None for name in processes.names(cluster)},
    }


def parser():
    top = argparse.ArgumentParser(
        prog="cluster",
        description="A real multi-node Kubernetes cluster of processes, for tests.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def command(name, action, summary, example, node=False, named=True):
        sub = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=f"example:\n  tests/cluster/cluster {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(action=action)
        if named:
            sub.add_argument("--name", default="a", metavar="CLUSTER", help="which cluster (default: a)")
        if node:
            sub.add_argument("node", metavar="NODE", help="n1, n2, ...")
        return sub

    sub = command("check", do_check, "say what this machine lacks for a cluster; it makes nothing", "check --nodes 3")
    sub.add_argument("--nodes", type=int, default=3, help="real nodes (default: 3)")
    sub = command(
        "up",
        do_up,
        "make a cluster; when this returns its nodes are Ready and names resolve",
        "up --name b --nodes 2 --audit",
    )
    sub.add_argument("--nodes", type=int, default=3, help="real nodes (default: 3)")
    sub.add_argument("--gpus-per-node", type=int, default=8, help="fake nvidia.com/gpu of each (default: 8)")
    sub.add_argument(
        "--kwok", type=int, default=0, metavar="N", help="nodes that exist only as objects, played by KWOK, 8 GPUs each"
    )
    sub.add_argument(
        "--audit",
        action="store_true",
        help="write the API server's audit log (level Metadata); `status` prints its path",
    )
    sub.add_argument(
        "--default-rates",
        action="store_true",
        help="controllers and scheduler make as many requests per second as Kubernetes lets them without flags,"
        " not 1,000",
    )
    sub.add_argument(
        "--owner", type=int, metavar="PID", help="take the cluster down when this process has ended, however it ended"
    )
    sub.add_argument("--keep", action="store_true", help="when it fails, leave what was made, to look at it")
    sub = command(
        "down",
        do_down,
        "remove a cluster whole, also one whose `up` was killed, and check that nothing is left",
        "down --all",
    )
    sub.add_argument("--all", action="store_true", help="every cluster of this cache folder")
    sub.add_argument(
        "--when-gone", metavar="PID:START_TIME", help="first wait until this process has ended (used by up --owner)"
    )
    sub = command("status", do_status, "show the clusters and their parts", "status --json", named=False)
    sub.add_argument("--name", metavar="CLUSTER", help="only this cluster (default: all)")
    sub.add_argument("--json", action="store_true", help="for programs")
    command("kubeconfig", do_kubeconfig, "print the path of the kubeconfig", "kubeconfig --name b")
    sub = command("logs", do_logs, "print a component's log", "logs kube-apiserver; cluster logs -f n1/kubelet")
    sub.add_argument(
        "component",
        help="etcd, kube-apiserver, kube-controller-manager, kube-scheduler, coredns, kwok,"
        " or n1/kubelet, n1/containerd, n1/kube-proxy, n1/boot",
    )
    sub.add_argument("-f", "--follow", action="store_true", help="go on printing as it grows")
    sub.add_argument("--path", action="store_true", help="print only the log's path")
    sub = command(
        "exec",
        do_exec,
        "run a command inside a node's namespaces; ends with its exit status",
        "exec n1 -- ctr -n k8s.io images list",
        node=True,
    )
    sub.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD...")
    sub = command("load", do_load, "import image archives into every node", "load operator.tar agent.tar")
    sub.add_argument("archive", nargs="+", metavar="IMAGE.tar")
    command(
        "power-off",
        do_power_off,
        "pull a node's power cord: all its processes die at once, the others hear nothing more of it",
        "power-off n2",
        node=True,
    )
    sub = command(
        "power-on",
        do_power_on,
        "start a powered-off node and wait until it is Ready",
        "power-on n2 --replaced",
        node=True,
    )
    sub.add_argument(
        "--replaced", action="store_true", help="as a new machine: empty disk, and its old Node object is deleted first"
    )
    command(
        "cut",
        do_cut,
        "pull a node's network cable: both sides live on and hear nothing of each other",
        "cut n2",
        node=True,
    )
    command("uncut", do_uncut, "put the network cable back", "uncut n2", node=True)
    command(
        "kill-kubelet",
        do_kill_kubelet,
        "end a node's kubelet alone; its containers run on",
        "kill-kubelet n2",
        node=True,
    )
    command(
        "start-kubelet",
        do_start_kubelet,
        "start a killed kubelet again and wait for its heartbeat",
        "start-kubelet n2",
        node=True,
    )
    command(
        "kill-api-server",
        do_kill_api_server,
        "end the API server with SIGKILL; the nodes and their containers run on",
        "kill-api-server --name b",
    )
    command(
        "start-api-server",
        do_start_api_server,
        "start a killed API server again and wait until it is ready",
        "start-api-server --name b",
    )
    sub = command(
        "volume",
        do_volume,
        "make a volume that pods of all nodes write at once; prints its folder on the host",
        "volume default checkpoints",
    )
    sub.add_argument("namespace", metavar="NAMESPACE")
    sub.add_argument("claim", metavar="NAME", help="name of the PersistentVolumeClaim")
    sub.add_argument("--size", default="1Gi", help="what the volume claims to hold (default: 1Gi)")
    sub.add_argument("--no-claim", action="store_true", help="make the volume alone; a claim of that name binds to it")
    return top


def main(words):
    asked = parser().parse_args(words)
    try:
        preflight.require_root()
        asked.action(asked)
    except Problem as error:
        say(f"cluster: {error}")
        return 1
    except BrokenPipeError:
        return 141
    except OSError as error:
        say(f"cluster: {error.strerror or error}{f' ({error.filename})' if error.filename else ''}")
        return 1
    except Interrupted as signal:
        return 128 + signal.number
    except KeyboardInterrupt:
        return 130
    return 0
