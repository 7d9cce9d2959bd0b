"""Gangs that contend for less than they ask, an operator that dies again and again, and an adversary."""

import math
import os
import random
import signal
import threading
import time

import lockstep_cluster.api
import placed

GANGS = int(os.environ.get("LOCKSTEP_GANGS", "40"))
KILLS = int(os.environ.get("LOCKSTEP_KILLS", "2"))
SEED = int(os.environ.get("LOCKSTEP_SEED", "17"))
SHARE = 0.6  # of what all gangs ask, the pool has
POOL = "contended"
TIMEOUT = 20  # gangTimeoutSeconds
ADVERSARY = "adversary"  # namespace of the plain pods


class Gangs:
    """The gangs of a seed, and the size of the pool for which they contend."""

    def __init__(self, count, seed):
        self.random = random.Random(seed)
        self.seconds = {}  # for which a gang keeps its nodes once it is placed
        self.jobs = [self._gang(number) for number in range(count)]
        asked = sum(job["spec"]["nodes"] * job["spec"]["gpusPerNode"] for job in self.jobs)
        largest = max(job["spec"]["nodes"] for job in self.jobs)
        self.nodes = max(math.ceil(SHARE * asked / placed.GPUS), largest)
        self.asked = asked

    def _gang(self, number):
        pods = self.random.choice([1, 1, 2, 2, 2, 3, 4, 4, 6, 8])
        gpus = self.random.choice([8, 8, 8, 4, 2])
        placement = {"gangTimeoutSeconds": TIMEOUT}
        wish = self.random.choice(["none", "required", "preferred"])
        if wish == "required":
            placement["required"] = "rack" if pods <= placed.RACK_OF_FLEET // 2 else "block"
        elif wish == "preferred":
            placement.update(preferred="rack", preferredWaitSeconds=self.random.randint(1, 4))
        self.seconds[f"gang-{number}"] = self.random.randint(2, 6)
        return placed.simulated(f"gang-{number}", pods, gpus, POOL, placement=placement)

    def bounds(self):
        """{job: (pods, timeout)}, as invariants.past_timeout() takes it."""
        return {job["metadata"]["name"]: (job["spec"]["nodes"], TIMEOUT) for job in self.jobs}


FLEET = Gangs(GANGS, SEED).nodes


class Actor:
    """A thread with an API client of its own, for the time of a block; what ended it too early is `problem`."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._act, daemon=True)
        self.problem = None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(60)

    def _act(self):
        api = placed.client(self._cluster)
        try:
            self._run(api)
        except (OSError, AssertionError, lockstep_cluster.api.Problem) as error:
            self.problem = str(error)
        finally:
            api.close()


class Finisher(Actor):
    """Deletes each job some seconds after it was placed. No agent runs in the pods of KWOK, and pods of a gang that end
    one after the other would be a loss."""

    def __init__(self, cluster, jobs, seconds):
        super().__init__(cluster)
        self._jobs, self._seconds = jobs, dict(seconds)
        self.last = {}  # name -> the job as it was when it was deleted

    def all_finished(self):
        return self.problem or self.last.keys() == self._seconds.keys()

    def _run(self, api):
        due, seen = {}, 0
        while not self._over.wait(0.1):
            events = self._jobs.timed("default", seen)
            seen += len(events)
            for arrived, job in events:
                name = job["metadata"]["name"]
                if name in self._seconds and placed.condition(job, "Placed").get("status") == "True":
                    due.setdefault(name, arrived + self._seconds[name])
            for name in [name for name, at in due.items() if at <= time.monotonic() and name not in self.last]:
                self.last[name] = self._cluster.job(name)
                api.call("DELETE", f"/apis/lockstep.dev/v1alpha1/namespaces/default/trainingjobs/{name}")


class Mortal:
    """An operator that dies with SIGKILL after some of its writes, and is started again as a kubelet does.

    `deaths`: after how many writes, of each life but the last."""

    def __init__(self, start, deaths):
        self._start, self._deaths = start, list(deaths)
        self._over = threading.Event()
        self.died = 0
        self.problem = None  # why an operator ended that was not to end
        self.operators = []  # one for each life
        self.operator = self._next()
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._thread.start()

    def _next(self):
        self.operators.append(
            self._start(**({"LOCKSTEP_FAULT_AFTER": str(self._deaths.pop(0))} if self._deaths else {}))
        )
        return self.operators[-1]

    def _supervise(self):
        while True:
            code = self.operator.process.wait()
            if self._over.is_set():
                return
            if code != -signal.SIGKILL:
                self.problem = f"the operator ended with {code}: {self.operator.log()[-2000:]}"
                return
            self.died += 1
            self.operator = self._next()

    def end(self):
        """Ends the operator in order."""
        self._over.set()
        self.operator.stop()
        self._thread.join(30)


class Adversary(Actor):
    """Plain pods that take GPUs of the pool and give them back. Every second one wants the very node that a gated pod
    reserves, which kube-scheduler does not know of."""

    EVERY = 0.15  # seconds between two of its acts

    def __init__(self, cluster, pods, nodes, seed):
        super().__init__(cluster)
        self._pods, self._nodes = pods, nodes
        self._random = random.Random(seed)
        self._most = max(2, len(nodes) // 10)  # pods at a time
        self.made = self.aimed = 0

    def _run(self, api):
        there = []
        while not self._over.wait(self.EVERY):
            if len(there) < self._most:
                there.append(self._take(api))
            else:
                self._give_back(api, there.pop(self._random.randrange(len(there))))
        for name in there:
            self._give_back(api, name)

    def _target(self):
        """The node of the newest pod that has a gate; None where there is none."""
        for _, pod in reversed(self._pods.events("default")[-200:]):
            if placed.gated(pod) and placed.reserved(pod) in self._nodes:
                return placed.reserved(pod)
        return None

    def _take(self, api):
        self.made += 1
        where = {placed.POOL: POOL}
        target = self._target() if self.made % 2 else None
        if target:
            self.aimed += 1
            where["kubernetes.io/hostname"] = target
        name = f"taker-{self.made}"
        pod = placed.plain_pod(
            name, self._random.choice([1, 2, 4, 8]), nodeSelector=where, tolerations=[placed.tolerates_fleet()]
        )
        api.call("POST", f"/api/v1/namespaces/{ADVERSARY}/pods", pod)
        return name

    def _give_back(self, api, name):
        try:
            api.call("DELETE", f"/api/v1/namespaces/{ADVERSARY}/pods/{name}?gracePeriodSeconds=0")
        except lockstep_cluster.api.Refused as error:
            if error.status != 404:
                raise
