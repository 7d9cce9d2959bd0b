"""The control plane as processes of the host: etcd, API server, controller manager, scheduler, CoreDNS."""

import functools
import json
import shutil

from . import certificates, cgroups, dns, processes
from .api import Api
from .host import Problem, wait_until

START_SECONDS = 120

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}

# The fake GPUs. A restarted kubelet sets resources without a device plugin to zero. A policy in the API server prevents
# that: it puts the GPUs into every write of a labelled node's status.
GPU_LABEL = "lockstep.dev/fake-gpus"
GPU_POLICY = [
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "lockstep-fake-gpus"},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"]},
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]},
                ]
            },
            "matchConditions": [
                {
                    "name": "a-labelled-node-with-a-capacity",
                    "expression": f"has(object.metadata.labels) && '{GPU_LABEL}' in object.metadata.labels"
                    " && has(object.status.capacity) && has(object.status.allocatable)",
                }
            ],
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {
                        "expression": "["
                        + ", ".join(
                            f'JSONPatch{{op: "add", path: "/status/{part}/" + jsonpatch.escapeKey("nvidia.com/gpu"),'
                            f' value: object.metadata.labels["{GPU_LABEL}"]}}'
                            for part in ("capacity", "allocatable")
                        )
                        + "]"
                    },
                }
            ],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "lockstep-fake-gpus"},
        "spec": {"policyName": "lockstep-fake-gpus"},
    },
]

DNS_ACCESS = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "lockstep-coredns"},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["services", "namespaces", "pods", "endpoints"],
                "verbs": ["list", "watch"],
            },
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "lockstep-coredns"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lockstep-coredns"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:coredns"}],
    },
]


def make_credentials(cluster):
    certificates.make_authority(cluster)
    certificates.make_service_account_key(cluster)
    certificates.make_server(
        cluster,
        "apiserver",
        [
            cluster.bridge_address,
            cluster.service_address,
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ],
    )
    for name, user, group in (
        ("admin", "admin", "system:masters"),
        ("kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
        ("controller-manager", "system:kube-controller-manager", ""),
        ("scheduler", "system:kube-scheduler", ""),
        ("kube-proxy", "system:kube-proxy", ""),
        ("coredns", "system:coredns", ""),
    ):
        certificates.make_client(cluster, name, user, group)
        if name != "kubelet-client":
            certificates.make_kubeconfig(cluster, name, cluster.pki / f"{name}.conf")
    shutil.copy(cluster.pki / "admin.conf", cluster.kubeconfig)
    cluster.kubeconfig.chmod(0o600)


def start_store(cluster, bin_folder, audit):
    """Starts etcd and the API server, without waiting for them."""
    start_etcd(cluster, bin_folder)
    start_api_server(cluster, bin_folder, audit)


def _etcd_address(cluster, port):
    return f"http://{cluster.private_address}:{port}"


def start_etcd(cluster, bin_folder):
    client, peer = (_etcd_address(cluster, port) for port in (2379, 2380))
    processes.spawn(
        cluster,
        "etcd",
        [
            bin_folder / "etcd",
            "--name=test",
            f"--data-dir={cluster.data}/etcd",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=test={peer}",
            "--quota-backend-bytes=8589934592",
        ],
        cgroups.make_control(cluster),
        cluster.logs / "etcd.log",
        urgent=True,
    )


def start_api_server(cluster, bin_folder, audit):
    """Starts the API server, also one that was killed, without waiting for it."""
    pki = cluster.pki
    argv = [
        bin_folder / "kube-apiserver",
        f"--etcd-servers={_etcd_address(cluster, 2379)}",
        f"--bind-address={cluster.bridge_address}",
        f"--advertise-address={cluster.bridge_address}",
        "--secure-port=6443",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        f"--service-cluster-ip-range={cluster.services}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        "--default-not-ready-toleration-seconds=5",
        "--default-unreachable-toleration-seconds=5",
    ]
    if audit:
        (cluster.data / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY))
        argv += [f"--audit-policy-file={cluster.data}/audit-policy.json", f"--audit-log-path={cluster.audit_log}"]
    control = cgroups.make_control(cluster)
    processes.spawn(cluster, "kube-apiserver", argv, control, cluster.logs / "kube-apiserver.log", urgent=True)


def wait_api_server_ready(cluster):
    """Returns a client once the API server is ready."""
    api = Api(cluster)

    def ready():
        processes.require_alive_or_fatal(cluster, "etcd")
        processes.require_alive_or_fatal(cluster, "kube-apiserver")
        return api.call("GET", "/readyz", seconds=5)

    wait_until("the API server was ready", ready, START_SECONDS)
    return api


def wait_for_store(cluster):
    """Returns a client once the API server is ready and holds the objects that the rest needs."""
    api = wait_api_server_ready(cluster)
    for thing in DNS_ACCESS + GPU_POLICY:
        wait_until(
            f"the API server took {thing['kind']} {thing['metadata']['name']}",
            functools.partial(api.apply, thing),
            30,
            interval=0.2,
        )
    return api


def start_controllers(cluster, bin_folder, node_grace_seconds, default_rates):
    """Starts the components that need a ready API server, without waiting for them."""
    rates = [] if default_rates else ["--kube-api-qps=1000", "--kube-api-burst=1000"]
    control = cgroups.make_control(cluster)
    pki = cluster.pki

    def identity(name):
        return [
            f"--{flag}={pki}/{name}.conf"
            for flag in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        ]

    processes.spawn(
        cluster,
        "kube-controller-manager",
        [
            bin_folder / "kube-controller-manager",
            *identity("controller-manager"),
            f"--bind-address={cluster.private_address}",
            f"--cert-dir={cluster.data}/controller-manager",
            "--leader-elect=false",
            "--use-service-account-credentials",
            f"--root-ca-file={pki}/ca.crt",
            f"--service-account-private-key-file={pki}/sa.key",
            f"--cluster-signing-cert-file={pki}/ca.crt",
            f"--cluster-signing-key-file={pki}/ca.key",
            "--allocate-node-cidrs=false",
            "--node-monitor-period=1s",
            f"--node-monitor-grace-period={node_grace_seconds}s",
            "--node-eviction-rate=10",
            "--terminated-pod-gc-threshold=50000",
            *rates,
            "--concurrent-gc-syncs=40",
            "--concurrent-job-syncs=20",
        ],
        control,
        cluster.logs / "kube-controller-manager.log",
        urgent=True,
    )
    processes.spawn(
        cluster,
        "kube-scheduler",
        [
            bin_folder / "kube-scheduler",
            *identity("scheduler"),
            f"--bind-address={cluster.private_address}",
            "--leader-elect=false",
            f"--cert-dir={cluster.data}/scheduler",
            *rates,
        ],
        control,
        cluster.logs / "kube-scheduler.log",
        urgent=True,
    )

    # No cache and a short time to live: a test that replaces a pod must see the new address at once. Names outside the
    # cluster do not exist, so that nothing waits for a server that cannot be reached.
    (cluster.data / "Corefile").write_text(f"""cluster.local in-addr.arpa ip6.arpa {{
  bind {cluster.bridge_address}
  errors
  kubernetes {{
    kubeconfig {pki}/coredns.conf
    ttl 1
  }}
}}
. {{
  bind {cluster.bridge_address}
  template ANY ANY . {{
    rcode NXDOMAIN
  }}
}}
""")
    processes.spawn(
        cluster,
        "coredns",
        [bin_folder / "coredns", "-conf", cluster.data / "Corefile"],
        control,
        cluster.logs / "coredns.log",
    )


def wait_for_controllers(cluster, api):
    """Returns when names resolve and pods can be created in the default namespace."""

    def named():
        for name in ("kube-controller-manager", "kube-scheduler", "coredns"):
            processes.require_alive_or_fatal(cluster, name)
        found = dns.address_of("kubernetes.default.svc.cluster.local", cluster.bridge_address)
        if found not in (None, cluster.service_address):
            raise Problem(f"it answered {found}, not {cluster.service_address}")
        return found

    wait_until("CoreDNS knew the Service 'kubernetes'", named, START_SECONDS)
    wait_until("the default service account was there", lambda: api.get("ServiceAccount", "default"), START_SECONDS)
