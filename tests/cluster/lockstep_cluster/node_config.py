"""The files that a node's daemons read. JSON is YAML too, so they are written as JSON."""

import functools
import json
import pathlib
import re
import shutil
import uuid

from . import certificates, network
from .controlplane import GPU_LABEL
from .host import run

HERE = pathlib.Path(__file__).resolve().parent.parent
CNI_FOLDERS = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"]
PAUSE_IMAGE = "docker.io/lockstep/pause:test"


def write(cluster, node, gpus):
    """Writes all of them at each power-on; existing keys stay."""
    folder = cluster.node_folder(node) / "config"
    (folder / "cni").mkdir(parents=True, exist_ok=True)
    for script in ("boot.sh", "start.sh"):
        shutil.copy(HERE / "node" / script, folder / script)
    address = cluster.node_address(node)
    texts = {
        "hostname": f"{node}\n",
        "hosts": f"127.0.0.1 localhost\n{address} {node}\n",
        "resolv.conf": f"nameserver {cluster.bridge_address}\n",
        "boot-id": f"{uuid.uuid4()}\n",
        "network": network.inner_batch(cluster, node),
        "cni/10-lockstep.conflist": network.pod_network(cluster, node),
        "containerd.toml": containerd_config(),
        "kubelet.json": json.dumps(kubelet_config(cluster, node), indent=2),
        "kubelet-flags": "\n".join(kubelet_flags(cluster, node, gpus)) + "\n",
        "kube-proxy.json": json.dumps(proxy_config(node), indent=2),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    if not (folder / "machine-id").exists():
        (folder / "machine-id").write_text(uuid.uuid4().hex + "\n")
    shutil.copy(cluster.pki / "ca.crt", folder / "ca.crt")
    shutil.copy(cluster.pki / "kube-proxy.conf", folder / "kube-proxy.conf")
    if not (folder / "kubelet.conf").exists():
        certificates.make_client(cluster, f"kubelet-{node}", f"system:node:{node}", "system:nodes")
        certificates.make_kubeconfig(cluster, f"kubelet-{node}", folder / "kubelet.conf")


def boot_id(cluster, node):
    return (cluster.node_folder(node) / "config" / "boot-id").read_text().strip()


def topology(node_index):
    """Labels of a made-up machine room: two nodes to a rack, two racks to a block."""
    return {"lockstep.dev/block": f"b{(node_index - 1) // 4}", "lockstep.dev/rack": f"r{(node_index - 1) // 2}"}


@functools.cache
def containerd_config():
    version = int(re.search(r"\bv?(\d+)\.\d+\.\d+", run("containerd", "--version")).group(1))
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE no process may lower its score, and every pod would fail.
    folders = json.dumps([folder for folder in CNI_FOLDERS if pathlib.Path(folder).is_dir()])
    if version >= 2:
        return f"""version = 3
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper"]
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = {folders}
    conf_dir = "/lockstep/node/cni"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = false
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE_IMAGE}"
"""
    return f"""version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper"]
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{PAUSE_IMAGE}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {json.dumps(json.loads(folders)[0])}
    conf_dir = "/lockstep/node/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def kubelet_config(cluster, node):
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cluster.cgroup}/{node}",
        "oomScoreAdj": 0,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "failSwapOn": False,
        "maxOpenFiles": 20000,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/lockstep/node/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "rotateCertificates": False,
        "readOnlyPort": 0,
        "clusterDNS": [cluster.bridge_address],
        "clusterDomain": "cluster.local",
        "resolvConf": "/etc/resolv.conf",
        # A dead node must show within seconds: the lease is renewed every 2 s, the controller manager waits 8 s.
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": 8,
        # The disk and the memory are shared with the host: their pressure must not evict the pods of a test.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "serializeImagePulls": False,
        "configMapAndSecretChangeDetectionStrategy": "Watch",
    }


def kubelet_flags(cluster, node, gpus):
    labels = topology(cluster.index(node))
    if gpus:
        labels[GPU_LABEL] = str(gpus)
    return [
        "--config=/lockstep/node/kubelet.json",
        "--kubeconfig=/lockstep/node/kubelet.conf",
        f"--hostname-override={node}",
        f"--node-ip={cluster.node_address(node)}",
        "--node-labels=" + ",".join(f"{key}={value}" for key, value in labels.items()),
    ]


def proxy_config(node):
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": "/lockstep/node/kube-proxy.conf"},
        "hostnameOverride": node,
        "oomScoreAdj": 0,
        "healthzBindAddress": "0.0.0.0:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        # The limits of connection tracking are the host's; they are left alone.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
