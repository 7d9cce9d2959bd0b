"""The cluster of the bench: a fleet of nodes that KWOK plays, and the objects that each side creates on it."""

import copy
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/cluster"))
import lockstep_cluster.api  # noqa: E402
import lockstep_cluster.layout  # noqa: E402
import lockstep_cluster.processes  # noqa: E402

NAMESPACE = "bench"
PODS_PER_NODE = 100  # of the 110 that a node of the fleet takes
ON_FLEET = {
    "nodeSelector": {"type": "kwok"},
    "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}],
}
CONTAINER = {"name": "trainer", "image": "docker.io/lockstep/busybox:test", "command": ["sleep", "86400"]}
COLLECTIONS = {
    "lockstep": f"/apis/lockstep.dev/v1alpha1/namespaces/{NAMESPACE}/trainingjobs",
    "jobset": f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets",
    "raw": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    "jobs": f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs",
    "pods": f"/api/v1/namespaces/{NAMESPACE}/pods",
}


def training_job(name, pods):
    """A job of ours, as a user would write it; its pods only sleep, and KWOK plays them. kube-scheduler chooses their
    nodes, as for the other sides; tests/bench/placement/end_to_end.py measures jobs whose nodes Lockstep chooses."""
    return {
        "apiVersion": "lockstep.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "image": CONTAINER["image"],
            "command": CONTAINER["command"],
            "nodes": pods,
            "rendezvous": {"kind": "None"},
            "scheduling": {"backend": "None"},
            "podTemplate": {"spec": {"containers": [{"name": "trainer"}], **ON_FLEET}},
        },
    }


def job_set(name, pods):
    """The same job for JobSet: one Indexed Job. It spells out the defaults of the webhook, which is not installed."""
    job = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": 0,
           "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER], **ON_FLEET}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All"},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "replicatedJobs": [{"name": "workers", "groupName": "default", "replicas": 1, "template": {"spec": job}}],
        },
    }


def bare_pod(pod, owner):
    """A pod for the raw client: the one that our operator created, without the fields that the server added."""
    found = copy.deepcopy(pod)
    meta = found["metadata"]
    found["metadata"] = {
        "name": "raw-@NUMBER@",
        "namespace": NAMESPACE,
        "labels": meta["labels"],
        "annotations": meta.get("annotations", {}),
        "ownerReferences": [owner],
    }
    spec = found["spec"]
    for field in ("nodeName", "serviceAccount", "priority", "preemptionPolicy", "enableServiceLinks"):
        spec.pop(field, None)
    spec["tolerations"] = [one for one in spec["tolerations"] if not one["key"].startswith("node.kubernetes.io/")]
    added = {one["name"] for one in spec.get("volumes", []) if one["name"].startswith("kube-api-access-")}
    spec["volumes"] = [one for one in spec.get("volumes", []) if one["name"] not in added]
    for container in spec["containers"] + spec.get("initContainers", []):
        container["volumeMounts"] = [one for one in container.get("volumeMounts", []) if one["name"] not in added]
    found.pop("status", None)
    return found


class Fleet:
    """The cluster and the programs of the bench. Use it with `with`, which removes everything afterwards."""

    def __init__(self, pods, name="bench", nodes=0, default_rates=False):
        """`nodes`: of the fleet (0: as few as the pods need). `default_rates`: as `cluster up --default-rates`."""
        self.rates = ["--default-rates"] if default_rates else []
        self.name, self.size = name, nodes or math.ceil(pods / PODS_PER_NODE) + 1
        self.tool = ROOT / "tests/cluster/cluster"
        self.programs = pathlib.Path(
            self._run(ROOT / "tests/bench/control_plane/programs.sh", deadline=3000).split()[-1]
        )
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-bench-"))

    def __enter__(self):
        self._run(
            self.tool,
            "up",
            "--name",
            self.name,
            "--nodes",
            "1",
            "--kwok",
            str(self.size),
            "--owner",
            str(os.getpid()),
            *self.rates,
            deadline=600,
        )
        self.layout = lockstep_cluster.layout.Cluster(self.name)
        self.api = lockstep_cluster.api.Api(self.layout)
        self.kubeconfig = str(self.layout.kubeconfig)
        kubectl = (
            pathlib.Path(self._run(ROOT / "tests/cluster/binaries.sh", "kubectl", deadline=4800).split()[-1])
            / "kubectl"
        )
        for file in (ROOT / "manifests/crd.yaml", self.programs / "jobset_jobsets.yaml"):
            self._run(kubectl, "--kubeconfig", self.kubeconfig, "apply", "--server-side", "-f", file)
        for namespace in (NAMESPACE, "lockstep-system", "jobset-system"):
            self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.api.call(
            "POST",
            "/api/v1/namespaces/lockstep-system/services",
            {"metadata": {"name": "lockstep-coordinator"}, "spec": {"ports": [{"name": "coordinator", "port": 7077}]}},
        )  # as in the chart
        for collection in COLLECTIONS.values():
            self.until(f"{collection} is served", lambda path=collection: self._serves(path))
        return self

    def __exit__(self, *_):
        self.api.close()
        self._run(self.tool, "down", "--name", self.name, deadline=300)
        for path in sorted(self.folder.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        self.folder.rmdir()

    @staticmethod
    def _run(*command, deadline=120):
        done = subprocess.run(
            [str(word) for word in command], cwd=ROOT, timeout=deadline, text=True, stdout=subprocess.PIPE
        )
        if done.returncode != 0:
            raise SystemExit(f"bench: {' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}")
        return done.stdout

    @staticmethod
    def until(what, look, deadline=120, every=0.1):
        """Waits until `look` returns something true, and returns it."""
        end = time.monotonic() + deadline
        while not (found := look()):
            if time.monotonic() > end:
                raise SystemExit(f"bench: not within {deadline} s: {what}")
            time.sleep(every)  # the condition is outside of this process
        return found

    def _serves(self, path):
        try:
            return self.api.call("GET", f"{path}?limit=1")
        except lockstep_cluster.api.Refused:
            return None

    def component(self, name):
        """The process of a component of the control plane."""
        return lockstep_cluster.processes.recorded(self.layout, name)

    def probe(self, objects, pods, copies=0, connections=16, bound=False):
        """Posts the objects and waits until the pods are there, or `bound`; returns what probe/main.go says."""
        file = self.folder / "post.json"
        file.write_text(json.dumps(objects))
        pki = self.layout.pki
        out = self._run(
            self.programs / "probe",
            f"-server=https://{self.layout.bridge_address}:6443",
            f"-ca={pki}/ca.crt",
            f"-cert={pki}/admin.crt",
            f"-key={pki}/admin.key",
            f"-namespace={NAMESPACE}",
            f"-pods={pods}",
            f"-post={file}",
            f"-copies={copies}",
            f"-connections={connections}",
            f"-bound={str(bound).lower()}",
            f"-timeout={60 + pods // 15}s",
            deadline=120 + pods // 15,
        )
        return json.loads(out)

    def settle(self, pods):
        """Waits until so many pods run. kube-scheduler spends its rate on deleted pods, too, and would still do so in
        the next measurement."""
        self.until(f"{pods} pods run", lambda: self.running() >= pods, deadline=120 + pods // 15, every=0.5)

    def clear(self):
        """Deletes everything that any side has created, and waits until it is deleted."""
        for kind in ("lockstep", "jobset", "jobs"):
            self.api.call(
                "DELETE", f"{COLLECTIONS[kind]}?propagationPolicy=Background&gracePeriodSeconds=0", seconds=120
            )

        def gone():
            if self._count("pods"):
                self._delete_pods()
            return not any(self._count(kind) for kind in ("pods", "lockstep", "jobset", "jobs"))

        self.until("everything is gone", gone, deadline=600, every=1)

    def _delete_pods(self):
        """Thousands take longer than the server's minute: it answers 504 or hangs up, and what is left comes next."""
        try:
            self.api.call("DELETE", f"{COLLECTIONS['pods']}?gracePeriodSeconds=0", seconds=300)
        except OSError:
            pass
        except lockstep_cluster.api.Refused as refused:
            if refused.status != 504:
                raise

    def _count(self, kind):
        page = self.api.call("GET", f"{COLLECTIONS[kind]}?limit=1")
        return len(page["items"])

    def running(self):
        """How many pods there are, once none of them is pending; 0 until then."""
        if self.api.call("GET", f"{COLLECTIONS['pods']}?fieldSelector=status.phase%3DPending&limit=1")["items"]:
            return 0
        page = self.api.call("GET", f"{COLLECTIONS['pods']}?limit=1")
        return len(page["items"]) + page["metadata"].get("remainingItemCount", 0)

    def raw_template(self):
        """[{path, body}] of the pod that the raw client posts, as our operator has just created one."""
        return self.template_of(training_job("shape", 1))

    def template_of(self, job):
        """The same of a job of one pod."""
        self.probe([{"path": COLLECTIONS["lockstep"], "body": job}], 1)
        pod = self.api.call("GET", COLLECTIONS["pods"])["items"][0]
        self.clear()
        owner = self.api.call("POST", COLLECTIONS["raw"], {"metadata": {"generateName": "raw-owner-"}})["metadata"]
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["name"],
            "uid": owner["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return [{"path": COLLECTIONS["pods"], "body": bare_pod(pod, reference)}]
