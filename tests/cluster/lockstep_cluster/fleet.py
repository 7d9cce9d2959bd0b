"""A fleet of nodes that exist only as objects: KWOK keeps their leases and plays their pods, as kwok-stages.yaml says.

For tests of scale and placement. A taint keeps pods away; a pod that wants such a node tolerates the taint
kwok.x-k8s.io/node=fake:NoSchedule.
"""

import json

from . import cgroups, processes
from .controlplane import GPU_LABEL
from .host import wait_until
from .node_config import HERE, topology


def node_grace_seconds(fleet_size):
    """How long the controller manager waits before it calls a silent node dead.

    Each lease is renewed twice within that time; for a large fleet that would use up the machine. So only clusters with
    a small fleet or none detect dead nodes fast.
    """
    return 8 if fleet_size <= 100 else 600


def start(cluster, bin_folder, fleet_size):
    """Starts KWOK, which plays every node with the label type=kwok."""
    config = cluster.data / "kwok.yaml"
    options = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "podPlayStageParallelism": 16,
            "nodePlayStageParallelism": 16,
            "nodeLeaseParallelism": 4,
            "podsOnNodeSyncParallelism": 4,
        },
    }
    config.write_text(json.dumps(options) + "\n---\n" + (HERE / "kwok-stages.yaml").read_text())
    lease = 2 * node_grace_seconds(fleet_size)  # KWOK renews after a quarter of it
    processes.spawn(
        cluster,
        "kwok",
        [
            bin_folder / "kwok",
            f"--kubeconfig={cluster.pki}/admin.conf",
            "--manage-nodes-with-label-selector=type=kwok",
            f"--cidr={cluster.fleet_pods}",
            f"--node-ip={cluster.bridge_address}",
            f"--node-lease-duration-seconds={lease}",
            f"--config={config}",
            f"--server-address={cluster.private_address}:10247",
            "--v=WARN",
        ],
        cgroups.make_control(cluster),
        cluster.logs / "kwok.log",
    )


def name_of(number):
    return f"kwok-{number}"


def make_nodes(api, count, gpus):
    """Makes the node objects kwok-1 to kwok-<count>."""
    for number in range(1, count + 1):
        amounts = {
            "cpu": "128",
            "memory": "2Ti",
            "pods": "110",
            "ephemeral-storage": "1Ti",
            "nvidia.com/gpu": str(gpus),
        }
        name = name_of(number)
        api.call(
            "POST",
            "/api/v1/nodes",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "annotations": {"kwok.x-k8s.io/node": "fake"},
                    "labels": {
                        "type": "kwok",
                        "kubernetes.io/hostname": name,
                        "kubernetes.io/os": "linux",
                        "kubernetes.io/arch": "amd64",
                        GPU_LABEL: str(gpus),
                        **{key: f"kwok-{value}" for key, value in topology(number).items()},
                    },
                },
                "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
                "status": {"capacity": amounts, "allocatable": amounts},
            },
        )


def wait_ready(cluster, api, count):
    def all_ready():
        processes.require_alive_or_fatal(cluster, "kwok")
        ready = 0
        for node in api.call("GET", "/api/v1/nodes?labelSelector=type%3Dkwok")["items"]:
            states = {entry["type"]: entry["status"] for entry in node["status"].get("conditions", [])}
            taints = {entry["key"] for entry in node["spec"].get("taints", [])}
            ready += states.get("Ready") == "True" and taints == {"kwok.x-k8s.io/node"}
        return ready == count

    wait_until(
        f"all {count} nodes of the fleet were Ready; see 'cluster logs kwok'", all_ready, 120 + count / 5, interval=0.3
    )
