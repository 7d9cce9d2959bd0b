"""The operator as a process on the host, and a cluster that has the CRD and no operator in it."""

import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import e2e

PROGRAM = e2e.BUILD / "tests/bin/lockstep-operator-fault"


def coordinator_service():
    """The Service that leads agents to the leading operator, as the chart makes it."""
    return {"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "lockstep-coordinator", "labels": {"who": "a-chart"}},
            "spec": {"ports": [{"name": "coordinator", "port": 7077}]}}


def is_served(cluster):
    """`kubectl wait` fails on a CRD so new that its conditions are null."""
    found = cluster.read("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/trainingjobs.lockstep.dev") or {}
    conditions = (found.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def cluster_with_crd(name, images=(), **how):
    """A fixture's body: a cluster (`how` as e2e.Cluster) with these image archives and the CRD.

    It is taken down at the fixture's end."""
    cluster = e2e.Cluster(name, **how)
    try:
        for archive in images:
            cluster.command("load", archive)
        cluster.kubectl("apply", "-f", e2e.ROOT / "manifests/crd.yaml")
        e2e.wait_for("the CRD is served", lambda: is_served(cluster), deadline=30)
        yield cluster
    finally:
        cluster.down()


def cluster_with_images(name, **how):
    """A fixture's body: cluster_with_crd() with the images of operator and trainer."""
    folder = e2e.OUT / f"{name}-images"
    folder.mkdir(parents=True, exist_ok=True)
    e2e.run(e2e.ROOT / "containers/build-images.sh", e2e.BUILD, folder, deadline=300)
    yield from cluster_with_crd(name, images=[folder / "operator.tar", folder / "trainer.tar"], **how)


class Operator:
    """A process of lockstep-operator for the jobs of one namespace.

    `environment` is described in tests/operator/fault/main.cpp."""

    def __init__(self, cluster, namespace, folder, number=1, lease=15, program=PROGRAM, server="",
                 image="docker.io/lockstep/operator:dev", flags=(), **environment):
        self.journal = folder / f"writes-{number}"
        self._log_path = folder / f"operator-{number}.log"
        kubeconfig = cluster.kubeconfig
        listed = re.search(r"server: (\S+)", open(kubeconfig, encoding="utf-8").read())[1]
        if server:  # another way to the same API server
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(open(cluster.kubeconfig, encoding="utf-8").read().replace(listed, server))
        environment = {**os.environ, "LOCKSTEP_FAULT_JOURNAL": str(self.journal), **environment}
        with open(self._log_path, "wb") as log:
            self.process = e2e.ends_with_us(subprocess.Popen(
                [program, f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", f"--watch-namespace={namespace}",
                 f"--leader-elect-lease-duration={lease}", "--metrics-address=127.0.0.1:0", "--coordinator-port=0",
                 f"--pod-ip={urllib.parse.urlparse(listed).hostname}", f"--agent-image={image}", *flags],
                stdout=log, stderr=subprocess.STDOUT, env=environment))

    def log(self):
        return self._log_path.read_text(errors="replace")

    def writes(self):
        """A line per write that the API server took."""
        return self.journal.read_text().splitlines() if self.journal.exists() else []

    def get(self, path):
        """(status, text) of a page of its HTTP server; None before it serves them."""
        port = re.search(r"metrics port\W+(\d+)", self.log())
        if not port:
            return None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return None

    def metric(self, name):
        """The sum of a metric's values; None while the operator does not answer."""
        page = self.get("/metrics")
        return page and sum(float(value) for value in re.findall(rf"(?m)^{name}(?:{{[^}}]*}})? (\S+)", page[1]))

    def leads(self):
        assert self.process.poll() is None, self.log()
        return re.search(r"leading advertise", self.log())

    def wait_until_ready(self, deadline=30):
        e2e.wait_for("it leads and is ready", lambda: self.leads() and (self.get("/readyz") or [0])[0] == 200, deadline)

    def rest(self):
        """Waits until it leads, has looked at the job, and has nothing more to do."""
        e2e.wait_for("the operator has reconciled",
                     lambda: (self.metric("lockstep_operator_reconcile_total") or 0) >= 1, 40)
        e2e.wait_for("its queue is empty", lambda: self.metric("workqueue_depth") == 0, 20)

    def stop(self):
        """Ends it in order; its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


class Operators:
    """The operators of one test in one namespace, which has the coordinator's Service."""

    def __init__(self, cluster, namespace, folder, **how):
        self._cluster, self.namespace, self._folder, self._how = cluster, namespace, folder, how
        self._started = []
        cluster.apply(coordinator_service(), namespace)

    def __call__(self, **how):
        """Starts one."""
        number = len(self._started) + 1
        self._started.append(Operator(self._cluster, self.namespace, self._folder, number, **{**self._how, **how}))
        return self._started[-1]

    def end(self):
        for operator in self._started:
            operator.stop()
            print(f"\n--- an operator\n{operator.log()[-4000:]}")
