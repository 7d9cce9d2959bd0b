"""A gang's life under an operator that dies: it is placed, repaired, released, placed again, and loses a pod.

Two pods of 8 GPUs on a pool of four nodes that KWOK plays. The first node is sound. The second and the third refuse
every pod that is bound to them. The fourth joins the pool when the gang was released."""

import os
import time

import contention
import e2e
import host_operator
import lockstep_cluster.api
import placed

PARALLEL = int(os.environ.get("LOCKSTEP_FAULT_PARALLEL", "5"))
LEASE = 3
TIMEOUT = 5  # gangTimeoutSeconds
NODES = 4  # of a pool
POOLS = [f"life-{number}" for number in range(PARALLEL)]
JOB = "gang"
REFUSAL = {"phase": "Failed", "reason": "OutOfcpu", "message": "the test says that another pod took the CPU"}


class Life:
    """One life in a namespace of its own; the operator dies after its k-th write (0: never)."""

    def __init__(self, cluster, watches, folder, namespace, k=0):
        self._cluster, self._pods, self._jobs = cluster, watches["pods"], watches["jobs"]
        self.namespace, self.k = namespace, k
        self._folder = folder / namespace
        self._folder.mkdir(parents=True)
        self._refused = set()  # uids
        self._broken = []
        self.operator = None
        self.problem = None
        self.seconds = None

    def run(self, pool, nodes):
        """Never raises for what the operator did or did not do: that is `problem`."""
        begun = time.monotonic()
        self.nodes = nodes
        self._broken = nodes[1:3]
        placed.label(self._cluster, {nodes[3]: {placed.POOL: "away"}})
        self._cluster.kubectl("create", "namespace", self.namespace)
        operators = host_operator.Operators(
            self._cluster, self.namespace, self._folder, lease=LEASE, flags=placed.FLAGS
        )
        self._api = placed.client(self._cluster)
        self.operator = contention.Mortal(operators, [self.k] if self.k else [])
        try:
            self._live(pool)
            self.seconds = time.monotonic() - begun
        except AssertionError as error:
            log = "".join(f"\n--- an operator\n{operator.log()[-2500:]}" for operator in self.operator.operators)
            self.problem = f"{error}\n{self.job().get('status')}{log}"
        finally:
            self._cluster.kubectl(
                "delete", "trainingjob", JOB, "-n", self.namespace, "--ignore-not-found", "--wait=false"
            )
            path = f"/api/v1/namespaces/{self.namespace}/pods"
            e2e.wait_for("the nodes are free for the next life", lambda: not self._cluster.read(path)["items"], 60)
            self.operator.end()
            self._api.close()
        return self

    def _live(self, pool):
        self._cluster.apply(placed.simulated(JOB, 2, placed.GPUS, pool, start_delay=3600,
                                             placement={"gangTimeoutSeconds": TIMEOUT}), self.namespace)
        # Released, or all its pods given up one by one: a new leader may place both on the nodes that refuse them.
        self._until(
            "the gang has no pods",
            lambda: self._incarnation() > 1 and not self._of(1) or self._refused and not self._there(),
            60,
        )
        placed.label(self._cluster, {self.nodes[3]: {placed.POOL: pool}})
        self._until("the gang is whole", self._is_whole, 60)
        lost = self._there()[0]
        self._call(
            "DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{lost['metadata']['name']}?gracePeriodSeconds=0"
        )
        self._until(
            "a successor is bound", lambda: self.job().get("status", {}).get("attempts") and self._is_whole(), 60
        )

    def _until(self, what, done, deadline):
        """Waits for that, and meanwhile has the broken nodes refuse what is bound to them."""
        def look():
            pod = self._to_refuse()
            if pod is None:
                return done()
            meta = pod["metadata"]
            self._refused.add(meta["uid"])
            self._call("PATCH", f"/api/v1/namespaces/{self.namespace}/pods/{meta['name']}/status",
                       {"metadata": {"uid": meta["uid"]}, "status": REFUSAL})
            return None

        e2e.wait_for(f"{self.namespace}: {what}", look, deadline, every=0.05)

    def _call(self, method, path, body=None):
        """A request about a pod that the operator may have deleted meanwhile."""
        try:
            self._api.call(method, path, body, "application/merge-patch+json")
        except lockstep_cluster.api.Refused as error:
            if error.status not in (404, 409):
                raise

    def _there(self):
        """The pods that are there, by name."""
        found = {}
        for kind, pod in self._pods.events(self.namespace):
            found[pod["metadata"]["name"]] = None if kind == "DELETED" else pod
        return [pod for _, pod in sorted(found.items()) if pod]

    def _of(self, incarnation):
        return [
            pod for pod in self._there() if pod["metadata"]["labels"]["lockstep.dev/incarnation"] == str(incarnation)
        ]

    def _to_refuse(self):
        for pod in self._there():
            if (
                placed.node_of(pod) in self._broken
                and pod["metadata"]["uid"] not in self._refused
                and placed.phase(pod) != "Failed"
            ):
                return pod
        return None

    def _incarnation(self):
        return self.job().get("status", {}).get("incarnation", 0)

    def _is_whole(self):
        nodes = {placed.node_of(pod) for pod in self._there() if "deletionTimestamp" not in pod["metadata"]}
        said = placed.condition(self.job(), "Placed").get("status") == "True"
        return said and nodes == {self.nodes[0], self.nodes[3]}

    def job(self):
        """The newest state that the watch has seen."""
        found = self._jobs.events(self.namespace)
        return found[-1][1] if found else {}

    def events(self):
        """Of its pods, as invariants.py takes them."""
        return [event for event in self._pods.all_events() if event[2]["metadata"]["namespace"] == self.namespace]

    def writes(self):
        """The journal of the first operator."""
        return self.operator.operators[0].writes()
