"""Jobs, pods and nodes of the placement tests, and the states of a pod between its decision and its node."""

import contextlib
import os

import e2e
import jobs
import lockstep_cluster.api
import lockstep_cluster.layout

GPU = "nvidia.com/gpu"
GATE = "lockstep.dev/placement"
NODE = "lockstep.dev/node"  # annotation: the node that placement gave to a pod
RACK, BLOCK, POOL = "example.com/rack", "example.com/block", "example.com/pool"
RACKS = {"n1": "a", "n2": "b", "n3": "a", "n4": "b"}  # real nodes; neighbours by name are in different racks
GPUS = 8  # of each node, real or of the fleet
LEVELS = (f"--topology-level=block={BLOCK}", f"--topology-level=rack={RACK}")
SICK = "XIDErrors"  # the condition by which a node is sick while it is True
FLAGS = (*LEVELS, f"--avoid-nodes=condition:{SICK}=True")  # of the operator
RACK_OF_FLEET, BLOCK_OF_FLEET = 8, 32  # nodes
RECOVERIES = int(os.environ.get("LOCKSTEP_RECOVERIES", "5"))  # of test_recovery.py, for each backend


def client(cluster):
    """An API client of its own; not to be shared by threads."""
    return lockstep_cluster.api.Api(lockstep_cluster.layout.Cluster(cluster.name))


def label(cluster, nodes):
    """Sets labels of nodes: {node: {key: value}}; None removes one."""
    api = client(cluster)
    for node, labels in nodes.items():
        api.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}}, "application/merge-patch+json")
    api.close()


@contextlib.contextmanager
def sick(cluster, node):
    """A node with condition SICK, which its kubelet leaves as it is. Gives a function that ends it early."""
    api = client(cluster)

    def say(status):
        condition = {"type": SICK, "status": status, "reason": "Test", "message": "said by a test"}
        api.call("PATCH", f"/api/v1/nodes/{node}/status", {"status": {"conditions": [condition]}},
                 "application/strategic-merge-patch+json")

    say("True")
    try:
        yield lambda: say("False")
    finally:
        say("False")
        api.close()


def label_topology(cluster, fleet):
    """Two racks of real nodes in one block; the fleet's nodes in racks and blocks of their own."""
    wanted = {node: {RACK: rack, BLOCK: "real"} for node, rack in RACKS.items()}
    for number in range(1, fleet + 1):
        wanted[f"kwok-{number}"] = {RACK: f"r{(number - 1) // RACK_OF_FLEET:03}",
                                    BLOCK: f"b{(number - 1) // BLOCK_OF_FLEET:03}"}
    label(cluster, wanted)


def sleeper(name, nodes, gpus=GPUS, **spec):
    """A job on real nodes whose program is `sleep`: nothing waits for it, and it ends when the job is deleted."""
    spec = {"gpusPerNode": gpus, "procsPerNode": 1, "rendezvous": {"kind": "None"},
            "checkpoint": {"gracePeriodSeconds": 1}, **spec}
    return jobs.shell(
        name, "exec sleep 1000", nodes=nodes, **{key: value for key, value in spec.items() if value is not None}
    )


def simulated(name, nodes, gpus, pool, start_delay=None, **spec):
    """A job on a pool of the fleet: KWOK runs its pods `start_delay` seconds after the bind, and never ends them."""
    annotations = {"lockstep.dev/sim-start-delay": f"{start_delay}s"} if start_delay else {}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"containers": [{"name": "trainer"}], "nodeSelector": {POOL: pool}, "tolerations": [tolerates_fleet()]},
    }
    return jobs.shell(name, "true", nodes=nodes, **{
        "gpusPerNode": gpus, "procsPerNode": 1, "rendezvous": {"kind": "None"}, "podTemplate": template, **spec})


def tolerates_fleet():
    return {"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}


def plain_pod(name, gpus, **spec):
    """A pod that Lockstep knows nothing of and that takes GPUs."""
    amount = {GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "docker.io/lockstep/pause:test",
                    "imagePullPolicy": "Never",
                    "resources": {"limits": amount},
                }
            ],
            **spec,
        },
    }


@contextlib.contextmanager
def taken(cluster, nodes, gpus=GPUS):
    """Plain pods take GPUs of these nodes; the block gets a function that gives those of one node back."""
    held = set()

    def free(node):
        if node in held:
            held.discard(node)
            cluster.kubectl("delete", "pod", f"taker-{node}", "--wait=true", "--ignore-not-found")

    try:
        for node in nodes:
            held.add(node)
            cluster.apply(plain_pod(f"taker-{node}", gpus, nodeName=node))
        for node in nodes:
            path = f"/api/v1/namespaces/default/pods/taker-{node}"
            e2e.wait_for(
                f"a pod takes the GPUs of {node}", lambda at=path: phase(cluster.read(at) or {}) == "Running", 60
            )
        yield free
    finally:
        for node in list(held):
            free(node)


def phase(pod):
    return pod.get("status", {}).get("phase")


def job_of(pod):
    return pod["metadata"].get("labels", {}).get("lockstep.dev/job")


def node_of(pod):
    return pod["spec"].get("nodeName")


def reserved(pod):
    """The node that placement gave to the pod; None for a pod of others."""
    return pod["metadata"].get("annotations", {}).get(NODE)


def gated(pod):
    return any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates", []))


def gpus_of(pod):
    return sum(
        int(container.get("resources", {}).get("limits", {}).get(GPU, 0)) for container in pod["spec"]["containers"]
    )


def condition(job, kind):
    for found in (job or {}).get("status", {}).get("conditions", []):
        if found["type"] == kind:
            return found
    return {}


def charged(job):
    """What a job was charged: sentences; none when all is well."""
    status = job.get("status", {})
    said = [f"{job['metadata']['name']}: an attempt ended with {attempt['cause']}: {attempt.get('message', '')[:200]}"
            for attempt in status.get("attempts", []) if attempt["cause"] != "Completed"]
    restarts = {key: status.get("restarts", {}).get(key, 0) for key in ("total", "charged")}
    if any(restarts.values()):
        said.append(f"{job['metadata']['name']}: restarts {restarts}")
    return said
