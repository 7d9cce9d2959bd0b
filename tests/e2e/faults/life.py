"""A job's life under an operator that dies: the operator as a process on the host, its supervisor, and what is seen."""

import json
import os
import re
import signal
import subprocess
import threading
import time

import e2e
import host_operator
import jobs
import oracle

SLOTS = 2
LEASE = int(os.environ.get("LOCKSTEP_FAULT_LEASE", "4"))  # seconds; the shipped 15 in the long form
STEPS = 300 * LEASE  # some three Leases long
JOB = "train"


class Operator(host_operator.Operator):
    """One process of lockstep-operator-fault for the jobs of one namespace."""

    def __init__(self, cluster, namespace, folder, number, die_after=0, die_on="", mutation=""):
        environment = {"LOCKSTEP_FAULT_MUTATION": mutation}
        if die_after:
            environment["LOCKSTEP_FAULT_AFTER"] = str(die_after)
        if die_on:
            environment["LOCKSTEP_FAULT_ON"] = die_on
        super().__init__(cluster, namespace, folder, number, lease=LEASE, **environment)


def training_job(steps):
    """A model of 19 thousand parameters on a fifth of a core: long enough to outlive an operator, and cheap."""
    flags = ["--model=char-transformer", "--data=/usr/share/common-licenses", "--layers=1", "--width=32", "--heads=2",
             "--context=32", "--batch-size=2", "--micro-batch-size=1", "--threads=1", "--seed=7", "--deterministic",
             f"--steps={steps}", "--log-every=100"]
    return jobs.trainer(JOB, *flags, nodes=SLOTS, claim="state", every=10, cleanPodPolicy="All",
                        resources={"limits": {"cpu": "200m"}})


class Life:
    """From the creation of a job to its end and its tidying-up, with one death of the operator. It dies after its k-th
    write, or after the first whose line in the journal matches `die_on`."""

    tool = threading.Lock()  # of the cluster's tool

    def __init__(self, cluster, watches, folder, namespace, k=0, steps=STEPS, die_on="", mutation="",
                 later_mutation=""):
        self._cluster, self._pods, self._jobs = cluster, watches["pods"], watches["jobs"]
        self.namespace, self.k, self.die_on, self._steps = namespace, k, die_on, steps
        self._mutation, self._later = mutation, later_mutation
        self._folder = folder / namespace
        self._folder.mkdir(parents=True)
        self._operators = []
        self._ending = threading.Event()
        self._broken = None
        self.problem = None  # why there was no end
        self.killed_at = None
        self.seconds = None

    def _start(self, **how):
        self._operators.append(Operator(self._cluster, self.namespace, self._folder, len(self._operators) + 1, **how))
        return self._operators[-1]

    def _supervise(self):
        """Starts the operator again when it died, as a kubelet does."""
        code = self._operators[0].process.wait()
        if code == -signal.SIGKILL and self.mortal:
            self.killed_at = time.time()
            self._start(mutation=self._later)
            code = self._operators[1].process.wait()
        if not self._ending.is_set():
            self._broken = f"the operator ended with {code}"
            self._pods.wake()
            self._jobs.wake()

    def _newest(self):
        """The operator that is in charge: the second, once the first was killed."""
        if self.mortal and self._operators[0].process.poll() == -signal.SIGKILL:
            e2e.wait_for("the operator is started again", lambda: len(self._operators) > 1, 10, every=0.02)
        return self._operators[-1]

    def _wait(self, watch, what, look, deadline):
        def look_at(events):
            if self._broken:
                raise AssertionError(f"{self.namespace}: {self._broken}")
            return look(events)

        return watch.wait(what, self.namespace, look_at, deadline)

    def _follow_log(self):
        def rank_0(events):
            for _, pod in reversed(events):
                states = pod.get("status", {}).get("containerStatuses", [])
                if pod["metadata"]["labels"].get("lockstep.dev/slot") == "0" and states and \
                        ("running" in states[0]["state"] or "terminated" in states[0]["state"]):
                    return pod["metadata"]["name"]
            return None

        name = self._wait(self._pods, "rank 0's trainer runs", rank_0, 120)
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/log?container=trainer&follow=true&timestamps=true"
        with open(self._folder / "rank-0.log", "wb") as stream:
            return subprocess.Popen([str(e2e.program("kubectl")), "get", "--raw", path], stdout=stream,
                                    env={**os.environ, **self._cluster.env})

    def run(self, deadline=600):
        """Never raises for what the operator did or did not do: that is `problem`."""
        begun = time.monotonic()
        supervisor = threading.Thread(target=self._supervise, daemon=True)
        follower = None
        try:
            self._cluster.kubectl("create", "namespace", self.namespace)
            with Life.tool:
                self._cluster.command("volume", self.namespace, "state")
            self._cluster.apply(host_operator.coordinator_service(), self.namespace)
            self._start(die_after=self.k, die_on=self.die_on, mutation=self._mutation)
            supervisor.start()
            self._cluster.apply(training_job(self._steps), self.namespace)
            follower = self._follow_log()
            self._wait(self._jobs, "the job has ended", lambda events: events and any(
                oracle.condition(events[-1][1].get("status", {}), kind) for kind in ("Succeeded", "Failed")), deadline)
            follower.wait(30)
            self._wait(self._pods, "no pod is left", lambda events: events and not oracle.pods_left({"pods": events}),
                       60)
            self.seconds = time.monotonic() - begun
            self._newest().rest()
        except AssertionError as error:
            self.problem = f"{error}\n{self.tail()}"
        finally:
            self._ending.set()
            if follower and follower.poll() is None:
                follower.kill()
                follower.wait()
            self.exits = [operator.stop() for operator in self._operators]
        return self

    def tail(self):
        found = [event[1].get("status") for event in self._jobs.events(self.namespace)[-1:]]
        text = json.dumps(found, indent=1)[-3000:]
        return text + "".join(f"\n--- operator {i + 1}\n{operator.log()[-3000:]}"
                              for i, operator in enumerate(self._operators))

    @property
    def mortal(self):
        return bool(self.k or self.die_on)

    @property
    def killed(self):
        return self.killed_at is not None

    def first_writes(self):
        return [self._plain(line) for line in self._operators[0].writes()]

    def _plain(self, line):
        """Without the part of the name that differs from job to job."""
        return re.sub(rf"\b{JOB}-[0-9a-z]{{4}}-(\d+)-(\d+)", rf"{JOB}-*-\1-\2", line)

    def record(self, audit):
        """The recorded life, as the oracle reads it."""
        jobs_seen = self._jobs.events(self.namespace)
        started = [condition["lastTransitionTime"] for _, job in jobs_seen
                   for condition in job.get("status", {}).get("conditions", [])
                   if condition["type"] == "Running" and condition["status"] == "True"]
        ran_before = self.killed and bool(started) and e2e.seconds_of(started[0]) + 1 < self.killed_at
        return {"job": JOB, "uid": jobs_seen[0][1]["metadata"]["uid"], "slots": SLOTS, "killed_at": self.killed_at,
                "ran_before_the_kill": ran_before, "jobs": jobs_seen, "pods": self._pods.events(self.namespace),
                "log": (self._folder / "rank-0.log").read_text(errors="replace"),
                "audit": [entry for entry in audit if entry.get("objectRef", {}).get("namespace") == self.namespace]}

    def outage(self):
        """Seconds without a leader, and the steps that rank 0 reported meanwhile (every hundredth is in its log)."""
        found = re.search(r"(?m)^(\S+) info +leading", self._operators[1].log()) if len(self._operators) > 1 else None
        if not self.killed or not found:
            return None, None
        back_at = e2e.seconds_of(found[1])
        log = (self._folder / "rank-0.log").read_text(errors="replace")
        steps = [int(step) for at, step in re.findall(r"(?m)^(\S+) \[0\] step (\d+)/", log)
                 if self.killed_at <= e2e.seconds_of(at) <= back_at]
        return back_at - self.killed_at, max(steps) - min(steps) if steps else 0
