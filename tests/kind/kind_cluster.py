"""A cluster of kind for the tests of this folder: its nodes, the images in them, and the mock GPUs."""

import base64
import json
import os
import pathlib
import re
import sys
import threading
import time
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[0] / "e2e"))
import e2e  # noqa: E402

NAME = "lockstep"
ENGINE = os.environ.get("LOCKSTEP_KIND_ENGINE", "podman")
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "lockstep" / "kind"
OUT = e2e.ROOT / "out" / "kind"
# The control file of a node's mock of NVML, as the node sees it.
CONTROL = "/var/lib/mock-nvml/control"
GPU = "nvidia.com/gpu"
# Kinds that the cluster itself creates and expires, and those that cannot be listed.
PASSING = {"events", "events.events.k8s.io", "componentstatuses"}
# No test measures time. A deadline only ends a hopeless wait, also on a machine that compiles meanwhile.
PATIENCE = 300


class Parts:
    """The seconds of each part of the tests."""

    def __init__(self):
        self.rows = []

    def timed(self, name):
        parts = self

        class Timer:
            def __enter__(self):
                self.begun = time.monotonic()

            def __exit__(self, *_):
                parts.rows.append((name, time.monotonic() - self.begun))

        return Timer()


def config(own_node):
    """The configuration of kind. Our own node image brings no network plugin; see KindCluster._connect_pods."""
    limits = dict.fromkeys(
        ("controlPlaneComponentHealthCheck", "kubeletHealthCheck", "kubernetesAPICall", "tlsBootstrap"),
        f"{PATIENCE}s",
    )
    patches = [
        {"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": kind, "timeouts": limits}
        for kind in ("InitConfiguration", "JoinConfiguration")
    ]
    if own_node:
        # For cgroup version 1, and for a machine without CAP_SYS_RESOURCE.
        patches += [
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "failCgroupV1": False,
                "oomScoreAdj": 0,
                "maxOpenFiles": 20000,
            },
            {
                "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
                "kind": "KubeProxyConfiguration",
                "oomScoreAdj": 0,
                "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            },
        ]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "featureGates": {"ResourceHealthStatus": True},
        "networking": {"kubeProxyMode": "nftables", "disableDefaultCNI": own_node},
        "kubeadmConfigPatches": [json.dumps(patch) for patch in patches],
        "nodes": [{"role": "control-plane"}] + [{"role": "worker"}] * 3,
    }


def network_plugin(subnet):
    """Containers of a node share one bridge; the nodes route to one another."""
    return {
        "cniVersion": "0.4.0",
        "name": "lockstep",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": True,
                "isDefaultGateway": True,
                "hairpinMode": True,
                "ipMasq": False,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": subnet}]]},
            }
        ],
    }


def address_of(node):
    return next(entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP")


class KindCluster(e2e.Cluster):
    """A cluster of kind, with the helpers of the end-to-end tests bound to it."""

    def __init__(self, parts):  # pylint: disable=super-init-not-called
        self.name = NAME
        self.parts = parts
        self._kind = e2e.run(HERE / "binaries.sh", "kind", deadline=1800).stdout.split()[-1] + "/kind"
        self._kubectl = e2e.program("kubectl")
        self._of_thread = threading.local()
        self._api = None
        self.kubeconfig = str(OUT / "kubeconfig")
        self.env = {"KUBECONFIG": self.kubeconfig}
        self._own_node = "LOCKSTEP_KIND_NODE_IMAGE" not in os.environ
        self.image = os.environ.get("LOCKSTEP_KIND_NODE_IMAGE") or (CACHE / "node-image").read_text().strip()

    def up(self):
        OUT.mkdir(parents=True, exist_ok=True)
        written = OUT / "kind.yaml"
        written.write_text(json.dumps(config(self._own_node), indent=1))
        with self.parts.timed("kind create cluster"):
            self.kind(
                "create",
                "cluster",
                "--image",
                self.image,
                "--config",
                written,
                "--kubeconfig",
                self.kubeconfig,
                "--retain",
                "-v",
                "1",
                deadline=2 * PATIENCE,
            )
        with self.parts.timed("nodes Ready"):
            if self._own_node:
                self._connect_pods()
            self.kubectl(
                "wait", "node", "--all", "--for=condition=Ready", f"--timeout={PATIENCE}s", deadline=PATIENCE + 20
            )
        self._api = self._api_server()

    def kind(self, *words, deadline=PATIENCE):
        return e2e.run(self._kind, *words, "--name", self.name, deadline=deadline)

    def kubectl(self, *words, deadline=PATIENCE, check=True, stdin=None):
        return super().kubectl(*words, deadline=deadline, check=check, stdin=stdin)

    def down(self):
        self.kind("delete", "cluster", "--kubeconfig", self.kubeconfig)

    def workers(self):
        return sorted(
            node["metadata"]["name"]
            for node in self.get("nodes")["items"]
            if "node-role.kubernetes.io/control-plane" not in node["metadata"]["labels"]
        )

    def on(self, node, *command, stdin=None, check=True):
        """Runs a command inside a node's container."""
        return e2e.run(
            ENGINE,
            "exec",
            *(["-i"] if stdin is not None else []),
            node,
            *command,
            stdin=stdin,
            check=check,
            deadline=PATIENCE,
        )

    def power_off(self, node):
        """Kills the node's container, as a machine loses power."""
        e2e.run(ENGINE, "kill", "--signal", "KILL", node, deadline=PATIENCE)

    def load(self, archive):
        self.kind("load", "image-archive", archive, "--nodes", ",".join(self.workers()))

    def export_logs(self):
        # It ends with 1 if a node has no crictl, and has written everything else by then.
        e2e.run(self._kind, "export", "logs", OUT / "logs", "--name", self.name, deadline=PATIENCE, check=False)

    def _connect_pods(self):
        nodes = e2e.wait_for("every node has a pod CIDR", self._pod_subnets, PATIENCE, 0.5)
        for name, (_, subnet) in nodes.items():
            plugin = json.dumps(network_plugin(subnet))
            self.on(name, "sh", "-c", "cat >/etc/cni/net.d/10-lockstep.conflist", stdin=plugin)
            routes = [
                f"ip route replace {other} via {address}" for peer, (address, other) in nodes.items() if peer != name
            ]
            self.on(name, "sh", "-c", "\n".join(routes))

    def _pod_subnets(self):
        nodes = self.get("nodes")["items"]
        if len(nodes) < 4 or not all("podCIDR" in node["spec"] for node in nodes):
            return None
        return {node["metadata"]["name"]: (address_of(node), node["spec"]["podCIDR"]) for node in nodes}

    def _api_server(self):
        """The address of the API server for `read`, and the administrator's certificate."""
        seen = json.loads(self.kubectl("config", "view", "--raw", "-o", "json").stdout)
        pki = OUT / "pki"
        pki.mkdir(mode=0o700, exist_ok=True)
        for name, data in (
            ("ca.crt", seen["clusters"][0]["cluster"]["certificate-authority-data"]),
            ("admin.crt", seen["users"][0]["user"]["client-certificate-data"]),
            ("admin.key", seen["users"][0]["user"]["client-key-data"]),
        ):
            (pki / name).write_bytes(base64.b64decode(data))
        return types.SimpleNamespace(bridge_address=address_of(self.get("node", f"{NAME}-control-plane")), pki=pki)

    def read(self, path):
        if not hasattr(self._of_thread, "api"):
            self._of_thread.api = e2e.lockstep_cluster.api.Api(self._api)
        return super().read(path)

    def objects(self):
        """Every object that the API server lists, as (group, kind, namespace, name), without the transient ones."""
        kinds = self.kubectl("api-resources", "--verbs=list", "-o", "name").stdout.split()
        columns = "custom-columns=GROUP:.apiVersion,KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name"
        listed = self.kubectl("get", ",".join(sorted(set(kinds) - PASSING)), "-A", "--no-headers", "-o", columns)
        return {tuple(line.split()) for line in listed.stdout.splitlines()}

    # The mock GPUs

    def gpus(self, node):
        """The GPUs that the kubelet offers, or None if no plugin has ever registered."""
        found = self.read(f"/api/v1/nodes/{node}")["status"]["allocatable"].get(GPU)
        return None if found is None else int(found)

    def wait_for_gpus(self, node, number):
        e2e.wait_for(f"{node} offers {number} GPUs", lambda: self.gpus(node) == number, PATIENCE, 0.5)

    def control(self, node, text):
        """Replaces the control file of the node's mock, in one step."""
        self.on(
            node,
            "sh",
            "-c",
            f"mkdir -p {os.path.dirname(CONTROL)} && cat >{CONTROL}.new && mv {CONTROL}.new {CONTROL}",
            stdin=text,
        )

    def happen(self, node, line):
        """Appends an event to the control file of the node's mock."""
        self.on(node, "sh", "-c", f"cat >>{CONTROL}", stdin=line + "\n")

    def plugin_pod(self, node):
        """The pod of the node's device plugin with all containers started once, or None."""
        for pod in self.read("/api/v1/namespaces/gpu-mock/pods")["items"]:
            started = [status for status in pod["status"].get("containerStatuses", []) if status.get("containerID")]
            if (
                pod["spec"].get("nodeName") == node
                and "deletionTimestamp" not in pod["metadata"]
                and len(started) == 2
            ):
                return pod
        return None

    def restart_plugin(self, node):
        """Replaces the pod of the node's device plugin, as a reboot of the node would."""
        old = e2e.wait_for(f"the plugin of {node} runs", lambda: self.plugin_pod(node), PATIENCE, 0.5)
        self.kubectl("delete", "pod", "-n", "gpu-mock", old["metadata"]["name"], "--wait=true")

        def replaced():
            pod = self.plugin_pod(node)
            return pod is not None and pod["metadata"]["uid"] != old["metadata"]["uid"]

        e2e.wait_for(f"the plugin of {node} runs again", replaced, PATIENCE, 0.5)

    def plugin_says(self, node):
        """The log of the plugin of a node, of its present and its previous process."""
        name = self.plugin_pod(node)["metadata"]["name"]
        path = f"/api/v1/namespaces/gpu-mock/pods/{name}/log?container=plugin&tailLines=200"
        return "\n".join(str(self.read(path + more)) for more in ("", "&previous=true"))

    def listed_gpus(self, node):
        """UUIDs that NVML on the node lists, or its error. Works while the plugin is down."""
        name = e2e.wait_for(f"the plugin's pod on {node}", lambda: self.plugin_pod(node), PATIENCE, 0.5)["metadata"][
            "name"
        ]
        done = self.kubectl("exec", "-n", "gpu-mock", name, "-c", "lister", "--", "/usr/bin/list_gpus", check=False)
        said = re.findall(r"^list_gpus: .*", done.stderr, re.M)
        if done.returncode != 0 and not said:
            raise e2e.CommandFailed(done.stderr)
        return said[0] if said else re.findall(r"UUID: (\S+)\)", done.stdout)
