"""The wires of a cluster: one bridge on the host, one veth pair ("cable") per node, routes to the nodes' pods.

This file makes only the host's end of a cable; a node gives its own end its address (see node/boot.sh). Pods of two
nodes talk over the bridge without the host's forwarding, so the host's own routing is left as it was.
"""

import json
import pathlib

from .host import Problem, run, succeeds


def links(cluster):
    """Names of all interfaces on this machine that belong to the cluster's slot."""
    if not cluster.slot:
        return []
    prefixes = (f"ls{cluster.slot}br", f"ls{cluster.slot}n")
    return sorted(entry.name for entry in pathlib.Path("/sys/class/net").iterdir() if entry.name.startswith(prefixes))


def make_bridge(cluster):
    # A bridge without an address of its own takes the lowest of its ports, and another when that cable goes. Then all
    # nodes would send packets for the API server to a dead address until their ARP entry expires.
    run(
        "ip",
        "-batch",
        "-",
        stdin=f"""
link add name {cluster.bridge} address 02:6c:73:00:00:{cluster.slot:02x} type bridge
addr add {cluster.bridge_address}/24 dev {cluster.bridge}
link set {cluster.bridge} up
""",
    )
    # Where br_netfilter is on and a firewall drops forwarded packets (as Docker's does),
    # frames on our bridge would be lost.
    if _forwarding_is_dropped():
        run("iptables", "-w", "5", "-I", "FORWARD", *_accept_rule(cluster))


def _accept_rule(cluster):
    return ["-i", cluster.bridge, "-o", cluster.bridge, "-j", "ACCEPT"]


def _forwarding_is_dropped():
    switch = pathlib.Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if not switch.exists() or switch.read_text().strip() == "0" or not succeeds("iptables", "--version"):
        return False
    return "-P FORWARD DROP" in run("iptables", "-w", "5", "-S", "FORWARD", check=False)


def has_accept_rule(cluster):
    return bool(cluster.slot) and succeeds("iptables", "-w", "5", "-C", "FORWARD", *_accept_rule(cluster))


def plug_in(cluster, node, pid):
    """Makes the node's cable, with eth0 in the network namespace of the process, and the route to its pods."""
    cable = cluster.cable(node)
    run(
        "ip",
        "-batch",
        "-",
        stdin=f"""
link add {cable} type veth peer name eth0 netns {pid}
link set {cable} master {cluster.bridge}
link set {cable} up
route replace {cluster.pods_of(node)} via {cluster.node_address(node)} dev {cluster.bridge}
""",
    )


def unplug(cluster, node):
    """Removes the cable: no packet of the node arrives after it, not even one that closes a connection."""
    if pathlib.Path(f"/sys/class/net/{cluster.cable(node)}").exists():
        run("ip", "link", "delete", cluster.cable(node))


def set_cable(cluster, node, up):
    if not pathlib.Path(f"/sys/class/net/{cluster.cable(node)}").exists():
        raise Problem(f"Node '{node}' has no cable: it is powered off; use 'cluster power-on {node}'.")
    run("ip", "link", "set", cluster.cable(node), "up" if up else "down")


def cable_state(cluster, node):
    """'up', 'cut', or 'none' for a node that is powered off."""
    try:
        flags = int(pathlib.Path(f"/sys/class/net/{cluster.cable(node)}/flags").read_text(), 16)
    except OSError:
        return "none"
    return "up" if flags & 1 else "cut"


def inner_batch(cluster, node):
    """The input of `ip -batch` with which the node sets up its end of the cable."""
    lines = [
        "link set lo up",
        f"addr add {cluster.node_address(node)}/24 dev eth0",
        "link set eth0 up",
        f"route add default via {cluster.bridge_address}",
    ]
    lines += [
        f"route add {cluster.pods_of(other)} via {cluster.node_address(other)}"
        for other in cluster.nodes()
        if other != node
    ]
    return "\n".join(lines) + "\n"


def pod_network(cluster, node):
    """The CNI configuration of a node."""
    return json.dumps(
        {
            "cniVersion": "0.4.0",
            "name": "lockstep",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": "cni0",
                    "isGateway": True,
                    "ipMasq": False,
                    "hairpinMode": True,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": "/run/cni",  # gone after a power-off, like the pods
                        "ranges": [[{"subnet": cluster.pods_of(node)}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": True}},
            ],
        },
        indent=2,
    )


def remove(cluster):
    """Removes everything that make_bridge and plug_in made; the routes go with the bridge."""
    for link in links(cluster):
        succeeds("ip", "link", "delete", link)
    if has_accept_rule(cluster):
        run("iptables", "-w", "5", "-D", "FORWARD", *_accept_rule(cluster))
